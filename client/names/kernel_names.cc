#include "client/names/kernel_names.h"

#include <algorithm>
#include <chrono>

namespace reel::client {

bool KernelNames::Start(Kernel kernel) {
  if (!kernel.forget()) return false;
  kernel_ = std::move(kernel);
  enabled_ = true;
  return true;
}

bool KernelNames::Keeps() {
  return enabled_ && !StillMountedUpon(clock_.NowMs());
}

bool KernelNames::IsQuiet(std::uint64_t directory) {
  const std::uint64_t now_ms = clock_.NowMs();
  MutexLock lock(mutex_);
  const auto left = left_until_ms_.find(directory);
  if (left == left_until_ms_.end()) return true;
  if (now_ms < left->second) return false;
  left_until_ms_.erase(left);
  return true;
}

// One caller looks again, now and then.
bool KernelNames::StillMountedUpon(std::uint64_t now_ms) {
  std::uint64_t at_ms = look_at_ms_;
  if (at_ms == 0) return false;
  if (now_ms < at_ms || !look_at_ms_.compare_exchange_strong(at_ms, now_ms + kLookAgainMs))
    return true;
  if (kernel_.is_mounted_upon()) return true;
  look_at_ms_ = 0;
  return false;
}

void KernelNames::Leave(std::uint64_t directory) {
  if (!enabled_) return;
  MutexLock lock(mutex_);
  if (left_until_ms_.size() >= kMaxLeft) left_until_ms_.clear();
  left_until_ms_[directory] = clock_.NowMs() + left_ms_;
}

void KernelNames::WaitOut() {
  look_at_ms_ = clock_.NowMs() + kLookAgainMs;
  WaitFor(kKeptMs + kSlackMs);
}

void KernelNames::WaitFor(std::uint64_t ms) {
  const std::uint64_t until_ms = clock_.NowMs() + ms;
  MutexLock wait(waiting_);
  while (clock_.NowMs() < until_ms) {
    never_.WaitFor(waiting_, std::chrono::milliseconds(std::min(ms, kSlackMs)));
  }
}

void KernelNames::EndForget() {
  names_.EndForget();
  MutexLock lock(mutex_);
  forgetting_ = false;
  forgotten_.NotifyAll();
}

// One after the other: whoever comes second returns when the kernel has forgotten, too.
void KernelNames::Forget() {
  {
    MutexLock lock(mutex_);
    while (forgetting_) forgotten_.Wait(mutex_);
    forgetting_ = true;
  }
  const bool keeps = names_.BeginForget();
  if (keeps && kernel_.is_mounted_upon()) {
    WaitOut();
  } else if (keeps) {
    kernel_.forget();
  }
  EndForget();
}

bool KernelNames::TryForget() {
  if (names_.keeps() && kernel_.is_mounted_upon()) return false;
  {
    MutexLock lock(mutex_);
    if (std::exchange(forgetting_, true)) return false;
  }
  if (names_.BeginForget()) kernel_.forget();
  EndForget();
  return true;
}

}  // namespace reel::client
