#include "mdc/daemon/service_watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace reel::mdc {
namespace {

constexpr std::uint64_t kNotesInAPeriod = 3;

}  // namespace

ServiceWatchdog::ServiceWatchdog(std::uint64_t period_ms, const Clock& clock,
                                 std::function<void()> notify)
    : period_ms_(period_ms), clock_(clock), notify_(std::move(notify)) {
  if (period_ms_ > 0) thread_ = std::thread([this] { Main(); });
}

ServiceWatchdog::~ServiceWatchdog() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

std::shared_ptr<ServiceWatchdog::Sign> ServiceWatchdog::Add() {
  auto sign = std::make_shared<Sign>(clock_);
  MutexLock lock(mutex_);
  signs_.push_back(sign);
  return sign;
}

void ServiceWatchdog::Main() {
  const std::chrono::milliseconds rest(std::max<std::uint64_t>(period_ms_ / kNotesInAPeriod, 1));
  MutexLock lock(mutex_);
  while (!stopping_) {
    const std::uint64_t now_ms = clock_.NowMs();
    const bool alive = std::all_of(signs_.begin(), signs_.end(), [&](const auto& sign) {
      return sign->Lives(now_ms, period_ms_);
    });
    if (alive) notify_();
    changed_.WaitFor(mutex_, rest);
  }
}

}  // namespace reel::mdc
