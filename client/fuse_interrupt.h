// Tells a waiting call that its caller has a signal.
//
// A fatal signal counts at once: a killed process is held until its request is answered. Another
// one counts only when the call has gone on waiting for a while, for programs take EINTR from
// open(2) or rename(2) as a failure, and many have timers or use signals to schedule their own
// threads. Threads: used by the call's worker only.
#pragma once

#include <fuse_lowlevel.h>

#include <chrono>
#include <optional>

#include "client/session.h"

namespace reel::client {

class FuseInterrupt : public Interrupt {
 public:
  explicit FuseInterrupt(fuse_req_t request) : request_(request) {}

  bool interrupted() const override;

 private:
  const fuse_req_t request_;
  mutable std::optional<std::chrono::steady_clock::time_point> seen_;
};

// Whether SIGKILL is pending for a thread (the kernel turns every fatal signal into it), by its
// /proc/TID/status. True for a thread that is not there.
bool IsBeingKilled(pid_t thread);

}  // namespace reel::client
