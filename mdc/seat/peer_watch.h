// A standby's watch over the controller that serves a volume: asks it over the LAN all the time, on
// a thread of its own, so that one that says nothing holds no look at the block up.
//
// Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mdc/seat/peer_signs.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class PeerWatch {
 public:
  // `port` and `clock` outlive it. `seat_ms` as the standby has it.
  PeerWatch(PeerPort& port, const Clock& clock, std::string volume, std::uint64_t seat_ms);
  ~PeerWatch();

  // The controller at that address is watched from now on; empty: nobody is.
  void Follow(const std::string& address);
  // As PeerSigns has it, of the one that is followed.
  std::optional<PeerSuspicion> Suspicion() const;
  bool HasPromise() const;

 private:
  void Main();

  PeerPort& port_;
  const Clock& clock_;
  const std::string volume_;
  const std::uint64_t seat_ms_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string address_ ABSL_GUARDED_BY(mutex_);
  PeerSigns signs_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace reel::mdc
