// How long the LUNs take for a stream's bytes: what decides whether working ahead of a stream of
// reads, or behind one of writes, pays for the copy that it costs.
//
// Clocks count in milliseconds, so that only many transfers together tell; the older ones weigh
// less and less. Threads: externally synchronised.
#pragma once

#include <cstdint>

#include "volume/base/types.h"

namespace reel::client {

class LunPace {
 public:
  // When so much was seen, half of it is forgotten.
  explicit LunPace(double memory_mib) : memory_mib_(memory_mib) {}

  void Note(std::uint64_t bytes, std::uint64_t took_ms) {
    took_ms_ += static_cast<double>(took_ms);
    mib_ += static_cast<double>(bytes) / static_cast<double>(kMiB);
    if (mib_ < memory_mib_) return;
    took_ms_ /= 2;
    mib_ /= 2;
  }
  // A MiB takes so many milliseconds or longer; false as long as little was seen.
  bool SlowerThan(double ms_per_mib) const {
    return mib_ >= kLeastMib && took_ms_ >= ms_per_mib * mib_;
  }

 private:
  static constexpr double kLeastMib = 8;

  const double memory_mib_;
  double took_ms_ = 0;
  double mib_ = 0;
};

}  // namespace reel::client
