// What a process does on its way: preloaded into it, counts the mutexes that it takes, the memory
// that it asks for, and, where it was compiled with -finstrument-functions, the functions that it
// enters.
//
// The counts lie in the file that WALK_COUNTS names, as three numbers of 64 bits: functions,
// mutexes, allocations. Memory is glibc's, whatever malloc the process links. Threads: any.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
int __pthread_mutex_lock(pthread_mutex_t*);
}

namespace {

struct Counts {
  std::atomic<std::uint64_t> functions, mutexes, allocations;
};
Counts g_before_main;
Counts* g_counts = &g_before_main;

__attribute__((constructor)) void MapCounts() {
  const char* const path = std::getenv("WALK_COUNTS");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) g_counts = static_cast<Counts*>(mapped);
}

void Count(std::atomic<std::uint64_t>& count) {
  count.fetch_add(1, std::memory_order_relaxed);
}

void* New(std::size_t bytes, std::size_t alignment = 0) {
  Count(g_counts->allocations);
  void* const memory = alignment == 0 ? __libc_malloc(bytes) : __libc_memalign(alignment, bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

extern "C" {

void __cyg_profile_func_enter(void*, void*) {
  Count(g_counts->functions);
}
void __cyg_profile_func_exit(void*, void*) {}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  Count(g_counts->mutexes);
  return __pthread_mutex_lock(mutex);
}

void* malloc(std::size_t bytes) {
  Count(g_counts->allocations);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  Count(g_counts->allocations);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  Count(g_counts->allocations);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  Count(g_counts->allocations);
  return __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return aligned_alloc(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = aligned_alloc(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  __libc_free(memory);
}

}  // extern "C"

void* operator new(std::size_t bytes) {
  return New(bytes);
}
void* operator new[](std::size_t bytes) {
  return New(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return malloc(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return malloc(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return New(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return New(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  __libc_free(memory);
}
void operator delete[](void* memory) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  __libc_free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  __libc_free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  __libc_free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  __libc_free(memory);
}
