// Tells the service manager (systemd's WatchdogSec) that this daemon is alive: as long as each of
// its volumes is.
//
// A volume gives a sign of life with each beat for its seat, or each look at it. A thread of its
// own, which waits for nothing but the clock, passes that on; so one volume that hangs is noticed
// although others live. Threads: Tell and Retire come from any; the rest from one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "volume/base/env.h"
#include "volume/base/mutex.h"

namespace reel::mdc {

class ServiceWatchdog {
 public:
  // One volume's.
  class Sign {
   public:
    explicit Sign(const Clock& clock) : clock_(clock), last_ms_(clock.NowMs()) {}
    void GiveSign() { last_ms_.store(clock_.NowMs(), std::memory_order_relaxed); }
    // The volume has ended in order: nothing more is expected of it.
    void Retire() { last_ms_.store(~std::uint64_t{0}, std::memory_order_relaxed); }
    // Within the last `period_ms`.
    bool Lives(std::uint64_t now_ms, std::uint64_t period_ms) const {
      const std::uint64_t last_ms = last_ms_.load(std::memory_order_relaxed);
      return last_ms >= now_ms || now_ms - last_ms <= period_ms;
    }

   private:
    const Clock& clock_;
    std::atomic<std::uint64_t> last_ms_;
  };

  // `notify` is called three times in a period, while all volumes live. 0: the manager wants
  // nothing of the kind.
  ServiceWatchdog(std::uint64_t period_ms, const Clock& clock, std::function<void()> notify);
  ~ServiceWatchdog();

  // For one more volume, which lives as of now.
  std::shared_ptr<Sign> Add();

 private:
  void Main();

  const std::uint64_t period_ms_;
  const Clock& clock_;
  const std::function<void()> notify_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<Sign>> signs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace reel::mdc
