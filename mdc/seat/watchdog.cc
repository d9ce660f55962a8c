#include "mdc/seat/watchdog.h"

#include <chrono>
#include <utility>

namespace reel::mdc {
namespace {

// The term moves on with every beat, and a clock may leap (a suspended host): so it looks oftener.
constexpr std::uint64_t kLongestSleepMs = 50;

}  // namespace

Watchdog::Watchdog(const Seat& seat, const Clock& clock, std::function<void()> expired)
    : seat_(seat), clock_(clock), expired_(std::move(expired)), thread_([this] { Main(); }) {}

void Watchdog::Disarm() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    disarmed_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

void Watchdog::Main() {
  RaisePriority();
  MutexLock lock(mutex_);
  while (!disarmed_) {
    const std::uint64_t now_ms = clock_.NowMs();
    const std::uint64_t until_ms = seat_.until_ms();
    if (now_ms >= until_ms) return expired_();
    changed_.WaitFor(mutex_,
                     std::chrono::milliseconds(std::min(until_ms - now_ms, kLongestSleepMs)));
  }
}

}  // namespace reel::mdc
