// How fast a file is read or written from one end to the other, and so how much of it has to be
// held ahead of that: blocks of a writer, extents and tokens of a reader.
//
// A stream is a row of uses of which each begins where the last one ended. Its pace is looked at by
// the second: the fastest of late counts, so that a stream which was held up keeps what it needs.
// Threads: externally synchronised.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "volume/base/types.h"

namespace reel::client {

class StreamPace {
 public:
  // How much of a row of uses there has to be before it counts as a stream: small files are none.
  static constexpr std::uint64_t kStreamBytes = 512 * kKiB;
  // As long as a stream goes on without a controller: three times what a failover may take.
  static constexpr std::uint64_t kPrefetchMs = 9'000;

  explicit StreamPace(std::uint64_t stream_bytes = kStreamBytes) : stream_bytes_(stream_bytes) {}

  // A use of [from, to). True when it continues a stream that has come some way.
  bool Note(std::uint64_t from_bytes, std::uint64_t to_bytes, std::uint64_t now_ms) {
    if (std::exchange(to_bytes_, to_bytes) != from_bytes) Begin(from_bytes, now_ms);
    if (now_ms - looked_ms_ >= kLookMs) Look(now_ms);
    return from_bytes != from_bytes_ && streams();
  }

  // The last uses were a stream's.
  bool streams() const {
    return to_bytes_ != UINT64_MAX && to_bytes_ - from_bytes_ >= stream_bytes_;
  }
  std::uint64_t streamed_bytes() const { return to_bytes_ - from_bytes_; }
  // Of a reader that holds so much before it. True where less is left than it uses in kPrefetchMs,
  // and than three quarters of the most that it has held since this was last true: so it asks
  // seldom, and early. A reader with less than it uses in kLiveMs follows a writer closely, and
  // asks when it gets there: prefetching might take the place where the writer is about to write.
  bool RunsLow(std::uint64_t left_bytes) {
    most_left_bytes_ = std::max(most_left_bytes_, left_bytes);
    const std::uint64_t wanted_bytes = std::min(BytesIn(kPrefetchMs), most_left_bytes_ / 4 * 3);
    if (left_bytes >= wanted_bytes || left_bytes < BytesIn(kLiveMs)) return false;
    most_left_bytes_ = 0;
    return true;
  }
  // What it moves in so many milliseconds; 0 as long as that is not known.
  std::uint64_t BytesIn(std::uint64_t ms) const { return bytes_per_second_ * ms / 1000; }

 private:
  static constexpr std::uint64_t kLookMs = 1'000;
  static constexpr std::uint64_t kLiveMs = 500;

  void Begin(std::uint64_t at_bytes, std::uint64_t now_ms) {
    from_bytes_ = looked_bytes_ = at_bytes;
    looked_ms_ = now_ms;
    bytes_per_second_ = 0;
  }
  void Look(std::uint64_t now_ms) {
    const std::uint64_t now = (to_bytes_ - looked_bytes_) * 1000 / (now_ms - looked_ms_);
    bytes_per_second_ = std::max(now, (3 * bytes_per_second_ + now) / 4);
    looked_bytes_ = to_bytes_;
    looked_ms_ = now_ms;
  }

  std::uint64_t stream_bytes_;
  std::uint64_t from_bytes_ = 0;
  std::uint64_t to_bytes_ = UINT64_MAX;  // nowhere: the first use begins a stream
  std::uint64_t looked_bytes_ = 0;
  std::uint64_t looked_ms_ = 0;
  std::uint64_t bytes_per_second_ = 0;
  std::uint64_t most_left_bytes_ = 0;  // RunsLow's, since it was true
};

}  // namespace reel::client
