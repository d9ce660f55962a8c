// The memory of entries: for each a page of headers, and a payload buffer behind it.
//
// What was never touched costs nothing. Core dumps leave it out. Threads: any, once made.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"

namespace reel::client {

class UringMemory {
 public:
  // RESOURCE_EXHAUSTED: so much address space is not to be had.
  static absl::StatusOr<UringMemory> Map(std::size_t entries, std::size_t payload_bytes);
  UringMemory(UringMemory&& other) noexcept;
  UringMemory& operator=(UringMemory&&) = delete;
  ~UringMemory();

  // An entry's: a page for headers, and then its payload.
  std::span<std::byte> Of(std::size_t entry) const {
    return {begin_ + entry * entry_bytes_, entry_bytes_};
  }

 private:
  UringMemory(std::byte* begin, std::size_t length_bytes, std::size_t entry_bytes)
      : begin_(begin), length_bytes_(length_bytes), entry_bytes_(entry_bytes) {}

  std::byte* begin_ = nullptr;
  std::size_t length_bytes_ = 0;
  std::size_t entry_bytes_ = 0;
};

}  // namespace reel::client
