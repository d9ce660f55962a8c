#include "mdc/seat/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {

Heartbeat::Heartbeat(Seat& seat, const Clock& clock, Events events)
    : seat_(seat),
      clock_(clock),
      events_(std::move(events)),
      began_ms_(clock.NowMs()),
      progress_until_ms_(began_ms_ + RecoveryLimitMs()),
      thread_([this] { Main(); }) {}

void Heartbeat::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
  TakeOrders();
  for (const Order& order : std::exchange(in_effect_, {})) {
    order.done(absl::UnavailableError("the controller is giving up the seat"));
  }
}

void Heartbeat::Change(std::function<void(Seat&)> change,
                       std::function<void(const absl::Status&)> done) {
  MutexLock lock(mutex_);
  orders_.push_back({std::move(change), std::move(done)});
  changed_.NotifyAll();
}

void Heartbeat::Hasten() {
  if (hastened_.exchange(true, std::memory_order_relaxed)) return;
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

std::uint64_t Heartbeat::IntervalMs() const {
  const std::uint64_t seat_ms = seat_.options().seat_ms;
  return hastened_.load(std::memory_order_relaxed) ? WatchedBeatMs(seat_ms)
                                                   : BeatIntervalMs(seat_ms);
}

void Heartbeat::TakeOrders() {
  std::vector<Order> orders;
  {
    MutexLock lock(mutex_);
    orders.swap(orders_);
  }
  for (Order& order : orders) {
    order.change(seat_);
    in_effect_.push_back(std::move(order));
  }
}

// A beat that failed says it again; one that is lost was the last.
void Heartbeat::AnswerOrders(const ArbitrationResult& result) {
  if (in_effect_.empty()) return;
  absl::Status status = result.status;
  if (result.done() && events_.flush) status = events_.flush();
  if (!status.ok() && result.outcome != ArbitrationOutcome::kLost) return;
  for (const Order& order : std::exchange(in_effect_, {})) order.done(status);
}

// One that ends in time, but barely. (One that does not ends the process.)
void Heartbeat::NoteBeat(std::uint64_t began_ms) {
  const std::uint64_t now_ms = clock_.NowMs(), took_ms = now_ms - began_ms;
  {
    MutexLock lock(mutex_);
    beats_.Add(took_ms * 1000);
    if (took_ms <= SlowBeatMs(seat_.options().seat_ms)) return;
    const bool first = slow_beat_ms_ == 0 || now_ms - slow_at_ms_ >= SlowBeatShownMs();
    slow_at_ms_ = now_ms;
    if (!first && took_ms <= slow_beat_ms_) return;
    slow_beat_ms_ = took_ms;
  }
  spdlog::warn("{}", SlowBeat());
}

TimeHistogram Heartbeat::Beats() const {
  MutexLock lock(mutex_);
  return beats_;
}

std::string Heartbeat::SlowBeat() const {
  MutexLock lock(mutex_);
  if (slow_beat_ms_ == 0 || clock_.NowMs() - slow_at_ms_ >= SlowBeatShownMs()) return "";
  return absl::StrCat("a beat on the seat LUN took ", slow_beat_ms_,
                      " ms, and when one takes seat_ms, ", seat_.options().seat_ms,
                      " ms, the controller ends: see that LUN's load and paths, or set seat_ms = ",
                      TermForBeatMs(slow_beat_ms_), " in mdc.toml of all controllers");
}

std::uint64_t Heartbeat::Beat() {
  const std::uint64_t seat_ms = seat_.options().seat_ms;
  TakeOrders();
  const bool moving = clock_.NowMs() < progress_until_ms_.load(std::memory_order_relaxed);
  if (!moving) {
    if (!std::exchange(warned_, true)) spdlog::error("the core stands still: no beat for the seat");
    return BeatRetryMs(seat_ms);
  }
  warned_ = false;
  if (!seat_.claimed() && events_.claim && events_.claim()) seat_.SetClaimed();
  if (serving_.load(std::memory_order_relaxed)) seat_.SetServing();
  const std::uint64_t began_ms = clock_.NowMs();
  const ArbitrationResult result = seat_.Renew();
  NoteBeat(began_ms);
  AnswerOrders(result);
  switch (result.outcome) {
    case ArbitrationOutcome::kLost:
      if (events_.lost) events_.lost(result.status);
      return 0;
    case ArbitrationOutcome::kDone:
      if (events_.beaten) events_.beaten();
      return IntervalMs();
    default:
      spdlog::warn("a beat for the seat failed, and is tried again: {}",
                   std::string(result.status.message()));
      return BeatRetryMs(seat_ms);
  }
}

void Heartbeat::Main() {
  RaisePriority();
  std::uint64_t began_ms = began_ms_;
  for (std::uint64_t wait_ms = IntervalMs(); wait_ms != 0;) {
    {
      MutexLock lock(mutex_);
      const auto left_ms = [&] {
        const std::uint64_t due_ms = began_ms + std::min(wait_ms, IntervalMs());
        const std::uint64_t now_ms = clock_.NowMs();
        return now_ms < due_ms ? due_ms - now_ms : 0;
      };
      for (std::uint64_t left = left_ms(); !stopping_ && orders_.empty() && left != 0;
           left = left_ms()) {
        changed_.WaitFor(mutex_, std::chrono::milliseconds(left));
      }
      if (stopping_) return;
    }
    began_ms = clock_.NowMs();
    wait_ms = Beat();
  }
}

}  // namespace reel::mdc
