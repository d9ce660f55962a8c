// A clock for threads under test: stands still unless it is moved on, and tells when they have
// looked at it, so that a test can wait for a pass of theirs instead of for a time.
#pragma once

#include <atomic>
#include <cstdint>

#include "volume/base/env.h"

namespace reel {

class CountingClock final : public Clock {
 public:
  std::uint64_t NowMs() const override {
    const std::uint64_t now = now_ms;
    ++looks_;
    looks_.notify_all();
    return now;
  }
  WallTime WallNow() const override { return {}; }
  // Until it has been looked at so often from now on.
  void AwaitLooks(int count) {
    const int enough = looks_ + count;
    for (int looks = looks_; looks < enough; looks = looks_) looks_.wait(looks);
  }
  std::atomic<std::uint64_t> now_ms{1'000'000};

 private:
  mutable std::atomic<int> looks_{0};
};

}  // namespace reel
