// A host's clock: another time than the others', and a little faster or slower.
#pragma once

#include <cstdint>

#include "tests/sim/scheduler.h"

namespace reel::sim {

class HostClock final : public Clock {
 public:
  HostClock(const Scheduler& scheduler, Random& random)
      : scheduler_(scheduler),
        offset_ms_(random.Below(1'000'000)),
        per_mille_(random.Between(kSlowest, kFastest)) {}
  std::uint64_t NowMs() const override {
    return offset_ms_ + scheduler_.now() * per_mille_ / (1000 * kMs);
  }
  WallTime WallNow() const override { return scheduler_.WallNow(); }

 private:
  static constexpr std::uint64_t kSlowest = 980, kFastest = 1020;
  const Scheduler& scheduler_;
  const std::uint64_t offset_ms_;
  const std::uint64_t per_mille_;
};

}  // namespace reel::sim
