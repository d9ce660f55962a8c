// Beats for the seat, on a thread of its own, while the controller makes progress.
//
// Between its claim and its first Progress a controller recovers, for a bounded time; afterwards
// each call of Progress lets it beat a little longer (ProgressLimitMs). So a controller whose core
// stands still loses the seat, although this thread runs. Threads: Progress comes from any; the
// rest from one. The events are called on this thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "mdc/seat/seat.h"
#include "mdc/seat/seat_lun.h"
#include "proto/time_histogram.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class Heartbeat {
 public:
  struct Events {
    std::function<void(const absl::Status&)> lost;  // at most once: it is held no longer
    std::function<void()> beaten;
    // Between beats, while the seat is held without its machine's claim: true when it was got.
    std::function<bool()> claim;
    // Makes what the last beat has said durable.
    std::function<absl::Status()> flush;
  };
  // `seat` is this thread's until Stop returns, but for what any thread may ask it.
  Heartbeat(Seat& seat, const Clock& clock, Events events);
  ~Heartbeat() { Stop(); }

  void Progress() {
    if (!serving_.load(std::memory_order_relaxed)) serving_.store(true, std::memory_order_relaxed);
    progress_until_ms_.store(clock_.NowMs() + ProgressLimitMs(seat_.options().seat_ms),
                             std::memory_order_relaxed);
  }
  // As between claim and first Progress: for what takes its time (a stop).
  void AllowLong() {
    progress_until_ms_.store(clock_.NowMs() + RecoveryLimitMs(), std::memory_order_relaxed);
  }
  // For tools, which are at work as long as they live.
  void AllowAlways() {
    serving_.store(true, std::memory_order_relaxed);
    progress_until_ms_.store(~std::uint64_t{0}, std::memory_order_relaxed);
  }
  // From now on it beats as often as a controller that is watched.
  void Hasten();
  // That a beat took long lately, and what to do; empty: none did.
  std::string SlowBeat() const;
  // How long they took, in whole milliseconds.
  TimeHistogram Beats() const;
  // Applies `change` to the seat before the next beat, which is due at once. `done` runs on this
  // thread when such a beat is durable; not OK: it will never be.
  void Change(std::function<void(Seat&)> change, std::function<void(const absl::Status&)> done);
  void Stop();

 private:
  struct Order {
    std::function<void(Seat&)> change;
    std::function<void(const absl::Status&)> done;
  };
  void Main();
  // How long to wait for the next one; 0: there is none.
  std::uint64_t Beat();
  void TakeOrders();
  void AnswerOrders(const ArbitrationResult& result);
  void NoteBeat(std::uint64_t began_ms);
  std::uint64_t IntervalMs() const;

  Seat& seat_;
  const Clock& clock_;
  const Events events_;
  const std::uint64_t began_ms_;
  std::atomic<std::uint64_t> progress_until_ms_;
  std::atomic<bool> serving_{false}, hastened_{false};
  bool warned_ = false;           // of the thread
  std::vector<Order> in_effect_;  // of the thread: not yet durable
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t slow_beat_ms_ ABSL_GUARDED_BY(mutex_) = 0;  // the slowest of those lately
  std::uint64_t slow_at_ms_ ABSL_GUARDED_BY(mutex_) = 0;    // when one was
  TimeHistogram beats_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Order> orders_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace reel::mdc
