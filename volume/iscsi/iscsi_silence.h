// When a portal counts as lost because it says nothing, although its connection stands.
//
// Passive: it is told when something was heard, and says when to ask and when to give up. A process
// that stood still for a while is fair to its target: what counts is how long the portal had been
// silent when the socket was last looked at, and what lay there by then has been heard.
#pragma once

#include <chrono>

#include "volume/scsi/lun_times.h"

namespace reel {

class SilenceWatch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Then {
    kNothing,
    kAsk,  // by something that every portal answers at once
    kGiveUp,
  };

  // `on`: there is another portal. Else a silent one is never given up here.
  explicit SilenceWatch(bool on) : on_(on) {}

  void Heard(Clock::time_point now) {
    heard_ = now;
    asked_ = false;
  }

  // `looked`: when the last look at the socket began; all that it found has been heard.
  Then Look(Clock::time_point looked, Clock::time_point now) {
    if (!on_) return Then::kNothing;
    if (heard_ == Clock::time_point()) Heard(now);  // the login's last word
    if (asked_) {
      return looked - asked_at_ >= std::chrono::milliseconds(PortalAnswerMs()) ? Then::kGiveUp
                                                                               : Then::kNothing;
    }
    if (looked - heard_ < std::chrono::milliseconds(PortalSilenceMs())) return Then::kNothing;
    asked_ = true;
    asked_at_ = now;
    return Then::kAsk;
  }

  // For so long a poll may sleep that waits for nothing: -1 is for ever.
  int idle_poll_ms() const { return on_ ? static_cast<int>(PortalSilenceMs() / 2) : -1; }

 private:
  const bool on_;
  bool asked_ = false;
  Clock::time_point heard_, asked_at_;
};

}  // namespace reel
