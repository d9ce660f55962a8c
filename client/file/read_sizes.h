// Whether programs read a file in small pieces, as a database or a parser does, or in large ones,
// as a player does: the kernel's pages serve the former, and cost the latter. What counts is how it
// was read last. Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>

#include "volume/base/types.h"

namespace reel::client {

class ReadSizes {
 public:
  static constexpr std::uint64_t kSmallBytes = 16 * kKiB;
  static constexpr std::uint64_t kLargeBytes = 256 * kKiB;
  // One that looks at a header does no more than that.
  static constexpr std::uint32_t kManyReads = 32;

  // A program has asked for so many bytes.
  void Note(std::uint64_t length_bytes) {
    if (length_bytes >= kLargeBytes) {
      if (small_reads_.load(std::memory_order_relaxed) != 0) small_reads_.store(0);
    } else if (length_bytes <= kSmallBytes && !small()) {
      small_reads_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // Many small reads, and no large one since.
  bool small() const { return small_reads_.load(std::memory_order_relaxed) >= kManyReads; }

 private:
  std::atomic<std::uint32_t> small_reads_{0};
};

}  // namespace reel::client
