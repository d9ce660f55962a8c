#include "tests/sim/heap.h"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace reel::sim {
namespace {

constexpr std::uintptr_t kStart = 0x2000'0000'0000;
constexpr std::size_t kBytes = std::size_t{1} << 38;  // of addresses
constexpr std::size_t kUnit = 16;
constexpr std::size_t kSmall = 1024;  // up to that sizes are of units, beyond it powers of two
constexpr std::size_t kClasses = kSmall / kUnit + 1 + 40;

// What a block begins with, as long as it is free.
struct Free {
  Free* next;
};

std::array<Free*, kClasses> g_free{};
std::uintptr_t g_next = 0;  // 0: no history has begun
bool g_in_use = false;

bool IsOurs(const void* memory) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  return at >= kStart && at < kStart + kBytes;
}

std::size_t ClassOf(std::size_t bytes) {
  if (bytes <= kSmall) return (bytes + kUnit - 1) / kUnit;
  return kSmall / kUnit + static_cast<std::size_t>(std::bit_width((bytes - 1) / kSmall));
}

std::size_t SizeOf(std::size_t its_class) {
  constexpr std::size_t kLastSmall = kSmall / kUnit;
  return its_class <= kLastSmall ? its_class * kUnit : kSmall << (its_class - kLastSmall);
}

// In front of each block lies its class, and where it is aligned to more, how far it begins.
struct Header {
  std::uint32_t its_class;
  std::uint32_t shift_bytes;
  std::uint64_t unused;
};
static_assert(sizeof(Header) == kUnit);

void* Take(std::size_t bytes) {
  const std::size_t its_class = ClassOf(bytes + sizeof(Header));
  Free*& free = g_free[its_class];
  if (free != nullptr) return std::exchange(free, free->next);
  const std::size_t size = SizeOf(its_class);
  if (g_next + size > kStart + kBytes) std::abort();
  return reinterpret_cast<void*>(std::exchange(g_next, g_next + size));
}

void* New(std::size_t bytes, std::size_t alignment) {
  if (!g_in_use) {
    void* const memory =
        alignment <= kUnit
            ? std::malloc(bytes == 0 ? 1 : bytes)
            : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory == nullptr) std::abort();
    return memory;
  }
  const std::size_t extra = alignment <= kUnit ? 0 : alignment;
  auto* const block = static_cast<std::byte*>(Take(bytes + extra));
  std::byte* memory = block + sizeof(Header);
  if (extra != 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    memory += (alignment - at % alignment) % alignment;
  }
  auto* const header = reinterpret_cast<Header*>(memory) - 1;
  header->its_class = static_cast<std::uint32_t>(ClassOf(bytes + extra + sizeof(Header)));
  header->shift_bytes = static_cast<std::uint32_t>(memory - block);
  return memory;
}

void Delete(void* memory) {
  if (!IsOurs(memory)) return std::free(memory);
  const Header header = *(static_cast<Header*>(memory) - 1);
  auto* const free = reinterpret_cast<Free*>(static_cast<std::byte*>(memory) - header.shift_bytes);
  free->next = std::exchange(g_free[header.its_class], free);
}

}  // namespace

bool BeginHistoryHeap() {
  void* const region =
      mmap(reinterpret_cast<void*>(kStart), kBytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (region == MAP_FAILED) return false;
  g_next = kStart;
  g_in_use = true;
  return true;
}

OtherHeap::OtherHeap() : before_(std::exchange(g_in_use, false)) {}

OtherHeap::~OtherHeap() {
  g_in_use = before_;
}

}  // namespace reel::sim

void* operator new(std::size_t bytes) {
  return reel::sim::New(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return reel::sim::New(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return reel::sim::New(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return reel::sim::New(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  reel::sim::Delete(memory);
}
void operator delete[](void* memory) noexcept {
  reel::sim::Delete(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  reel::sim::Delete(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  reel::sim::Delete(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  reel::sim::Delete(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  reel::sim::Delete(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  reel::sim::Delete(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  reel::sim::Delete(memory);
}
