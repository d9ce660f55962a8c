// The time by which leases of sessions run: the controller's own, without the times in which no
// client could have reached it.
//
// It stands still while the process was stopped; from the start until the first client is heard;
// and where nobody at all has been heard for half of the longest lease, which is as likely to be
// this controller's cable as every client's end. Nobody waits for what another holds then, so
// nothing is served by an eviction; and who comes back finds what was left of its lease when the
// last one was heard: such a silence does not count at all when it is over.
//
// Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "volume/base/env.h"

namespace reel::mdc {

class SessionClock {
 public:
  // Observed more seldom than this: the process was stopped.
  static constexpr std::uint64_t kStoppedMs = 1000;

  SessionClock(const Clock& clock, std::uint64_t lease_ms)
      : clock_(clock), silence_limit_ms_(lease_ms / 2) {}

  // A session has this lease, and renews it accordingly. Before anybody is heard.
  void Knows(std::uint64_t lease_ms) {
    silence_limit_ms_ = std::max(silence_limit_ms_, lease_ms / 2);
  }

  // From here on; at the start of an epoch, before anything else.
  void Start() {
    observed_ms_ = clock_.NowMs();
    awake_ms_ = 0;
  }
  // To be called more often than every kStoppedMs.
  void Observe() {
    const std::uint64_t now_ms = clock_.NowMs();
    const std::uint64_t passed_ms = now_ms - std::min(now_ms, observed_ms_);
    observed_ms_ = now_ms;
    if (passed_ms <= kStoppedMs) awake_ms_ += passed_ms;
  }
  // A client with a session was heard.
  void Heard() {
    Observe();
    if (SilentMs() <= silence_limit_ms_) before_ms_ = NowMs();
    heard_ms_ = awake_ms_;
    heard_ = true;
  }

  // Steps back when a silence ends.
  std::uint64_t NowMs() const {
    return heard_ ? before_ms_ + std::min(SilentMs(), silence_limit_ms_) : 0;
  }
  bool HasHeard() const { return heard_; }
  std::uint64_t observed_ms() const { return observed_ms_; }  // by the clock
  // When somebody was last heard: another one after each silence.
  std::uint64_t HeardMs() const { return heard_ms_; }
  // Since somebody was last heard, or the start.
  std::uint64_t SilentMs() const { return awake_ms_ - heard_ms_; }

 private:
  const Clock& clock_;
  std::uint64_t silence_limit_ms_;
  std::uint64_t observed_ms_ = 0;
  std::uint64_t awake_ms_ = 0;   // since the start
  std::uint64_t heard_ms_ = 0;   // of awake_ms_: when somebody was
  std::uint64_t before_ms_ = 0;  // NowMs() at that moment
  bool heard_ = false;
};

}  // namespace reel::mdc
