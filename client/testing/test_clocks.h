// Clocks of the client's tests. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "volume/base/env.h"

namespace reel::client {

// Stands still unless it is moved on.
class ManualClock final : public Clock {
 public:
  std::uint64_t NowMs() const override { return now_ms_; }
  WallTime WallNow() const override { return SystemClock().WallNow(); }
  void Advance(std::uint64_t ms) { now_ms_ += ms; }

 private:
  std::atomic<std::uint64_t> now_ms_{1'000'000};
};

// Time passes by being looked at, from when it goes on: so a wait ends without a sleep.
class LookedAtClock final : public Clock {
 public:
  std::uint64_t NowMs() const override {
    ++looks_;
    return now_ms_ += step_ms_;
  }
  WallTime WallNow() const override { return {}; }
  void GoOn(std::uint64_t step_ms) { step_ms_ = step_ms; }
  // Until those who wait have looked so often again.
  void AwaitLooks(int times) const {
    for (const int before = looks_; looks_ - before < times;) std::this_thread::yield();
  }

 private:
  mutable std::atomic<int> looks_{0};
  mutable std::atomic<std::uint64_t> now_ms_{1'000'000};
  std::atomic<std::uint64_t> step_ms_{0};
};

}  // namespace reel::client
