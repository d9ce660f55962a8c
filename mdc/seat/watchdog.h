// Ends the process when the seat's term is over, whatever the rest of it is doing.
//
// Its thread waits for nothing but the clock: no LUN, no queue, and no mutex but its own, which
// only Disarm takes. Threads: Disarm comes from any, once.
#pragma once

#include <functional>

#include "mdc/seat/seat.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class Watchdog {
 public:
  // `expired` is called once, on the thread, and is expected not to return.
  Watchdog(const Seat& seat, const Clock& clock, std::function<void()> expired);
  ~Watchdog() { Disarm(); }

  void Disarm();

 private:
  void Main();

  const Seat& seat_;
  const Clock& clock_;
  const std::function<void()> expired_;
  Mutex mutex_;
  CondVar changed_;
  bool disarmed_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
