// Why a wait may end before what it waits for has come, and the one loop that waits and looks.
//
//   1. An interrupt that was raised is noticed within kPoll, although nobody wakes the wait for it.
//   2. What is waited for comes first: a wait whose end has come is never given up.
//   3. An interrupt is asked with locks held, so it takes none itself.
// Threads: an interrupt may be asked by any; each outlives the calls that it was given to.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"

namespace reel::client {

// Tells a call that waits that its caller gives up: a signal, an end of time, of a session, of the
// mount.
class Interrupt {
 public:
  virtual ~Interrupt() = default;
  virtual bool interrupted() const = 0;
};

// Raised where `reason` says so, or else where `otherwise` is; null: by nothing else. So several
// reasons make one interrupt. What `reason` refers to outlives it.
template <typename Reason>
class InterruptWhen final : public Interrupt {
 public:
  explicit InterruptWhen(Reason reason, const Interrupt* otherwise = nullptr)
      : reason_(std::move(reason)), otherwise_(otherwise) {}
  InterruptWhen(const InterruptWhen&) = delete;
  InterruptWhen& operator=(const InterruptWhen&) = delete;

  bool interrupted() const override {
    return reason_() || (otherwise_ != nullptr && otherwise_->interrupted());
  }

 private:
  const Reason reason_;
  const Interrupt* const otherwise_;
};

// Raised when that time is over.
inline auto Deadline(const Clock& clock, std::uint64_t limit_ms) {
  return InterruptWhen(
      [&clock, until_ms = clock.NowMs() + limit_ms] { return clock.NowMs() >= until_ms; });
}

// EINTR where it is raised; `what`: what was being waited for. May be null.
inline absl::Status CheckInterrupt(const Interrupt* interrupt, const char* what) {
  if (interrupt == nullptr || !interrupt->interrupted()) return absl::OkStatus();
  return ErrnoStatus(EINTR, absl::StrCat("interrupted while waiting for ", what));
}

// How often a wait that nobody may wake looks again: whether its caller has given up, or whether
// there is a session.
inline constexpr std::chrono::milliseconds kPoll{20};

// Waits until `done()`, then OK. At each wake-up, and every `poll`, it looks whether the wait
// `goes_on()`; what that returns else is the result. Both run under the mutex.
template <typename Done, typename GoesOn>
absl::Status WaitFor(CondVar& changed, Mutex& mutex, Done done, GoesOn goes_on,
                     std::chrono::milliseconds poll = kPoll) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  while (!done()) {
    if (absl::Status status = goes_on(); !status.ok()) return status;
    changed.WaitFor(mutex, poll);
  }
  return absl::OkStatus();
}

}  // namespace reel::client
