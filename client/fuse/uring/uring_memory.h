// The memory of entries: for each a page of headers, and a payload buffer behind it.
//
// What was never touched costs nothing. Core dumps leave it out. Threads: any, once made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace reel::client {

class UringMemory {
 public:
  // RESOURCE_EXHAUSTED: so much address space is not to be had.
  static absl::StatusOr<UringMemory> Map(std::size_t entries);
  UringMemory(UringMemory&& other) noexcept;
  UringMemory& operator=(UringMemory&&) = delete;
  ~UringMemory();

  // The first page of an entry's memory: headers. The payload begins on the next page.
  std::byte* Of(std::size_t entry) const;

 private:
  UringMemory(std::byte* begin, std::size_t length_bytes)
      : begin_(begin), length_bytes_(length_bytes) {}

  std::byte* begin_ = nullptr;
  std::size_t length_bytes_ = 0;
};

}  // namespace reel::client
