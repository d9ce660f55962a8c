#include "client/fuse/uring/uring_memory.h"

#include <sys/mman.h>

#include <utility>

#include "absl/status/status.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {

absl::StatusOr<UringMemory> UringMemory::Map(std::size_t entries, std::size_t payload_bytes) {
  const std::size_t entry_bytes = kIoAlignment + payload_bytes;
  const std::size_t length_bytes = entries * entry_bytes;
  void* begin = mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) {
    return absl::ResourceExhaustedError("no address space for the requests of FUSE over io_uring");
  }
  madvise(begin, length_bytes, MADV_DONTDUMP);
  madvise(begin, length_bytes, MADV_NOHUGEPAGE);  // an entry may see small requests alone
  return UringMemory(static_cast<std::byte*>(begin), length_bytes, entry_bytes);
}

UringMemory::UringMemory(UringMemory&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      length_bytes_(other.length_bytes_),
      entry_bytes_(other.entry_bytes_) {}

UringMemory::~UringMemory() {
  if (begin_ != nullptr) munmap(begin_, length_bytes_);
}

}  // namespace reel::client
