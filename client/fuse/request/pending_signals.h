// Whether a signal waits for the caller of a call, looked up where the kernel may not have told.
//
// A signal that comes to the caller while its request is handed over by io_uring is never told of
// (FUSE_INTERRUPT): the kernel sends that where the request has arrived when the signal comes, and
// does not look again when it arrives after. So a call that waits looks by itself, at
// /proc/TID/status: at most each kLookMs. A signal is believed that is seen twice, for one of the
// process may be on its way to another thread.
// Threads: all methods may be called concurrently.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace reel::client {

// SIGKILL, into which the kernel turns every fatal signal; or any that the thread does not block.
enum class SignalKind { kFatal, kAny };

// Whether such a signal is pending; false for a thread that is not there.
bool HasPendingSignal(pid_t thread, SignalKind kind);

class PendingSignals {
 public:
  static constexpr std::uint32_t kLookMs = 500;

  // `thread` 0: a call without a caller, such as a write-back, for which no signal is meant. It
  // must not be given up: its page would be lost.
  PendingSignals(pid_t thread, SignalKind kind) : thread_(thread), kind_(kind) {}
  // From then on for good.
  bool Seen() const;

 private:
  const pid_t thread_;
  const SignalKind kind_;
  mutable std::atomic<std::int64_t> next_look_ms_{0};
  mutable std::atomic<bool> seen_once_{false};
  mutable std::atomic<bool> believed_{false};
};

}  // namespace reel::client
