// Tells a waiting call that its caller is being killed.
//
// A killed process is held until its request is answered, so a fatal signal ends the wait. No other
// does, however long a controller is away, as on a local disk: programs take EINTR from open(2),
// lseek(2) or fsync(2) as a failure (a database ends itself), and many have timers, or use signals
// to wake their own threads. Threads: used by the call's worker only.
#pragma once

#include <fuse_lowlevel.h>

#include "client/base/interrupt.h"
#include "client/fuse/request/pending_signals.h"

namespace reel::client {

class FuseInterrupt : public Interrupt {
 public:
  explicit FuseInterrupt(fuse_req_t request);

  bool interrupted() const override;

 private:
  const fuse_req_t request_;
  const PendingSignals pending_;
};

// The same for any signal.
class AnySignal : public Interrupt {
 public:
  explicit AnySignal(fuse_req_t request);

  bool interrupted() const override;

 private:
  const fuse_req_t request_;
  const PendingSignals pending_;
};

// Whether SIGKILL is pending for a thread (the kernel turns every fatal signal into it), by its
// /proc/TID/status. True for a thread that is not there.
bool IsBeingKilled(pid_t thread);

}  // namespace reel::client
