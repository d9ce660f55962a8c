// Direct requests, of which only so many are served at a time; others are parked without a worker.
//
// A direct request may wait for another host's token, and that host for this one to drop pages:
// for their write-back, which comes by a request of its own. So direct requests must take neither
// all workers, nor all places that the kernel has for asynchronous ones. Nobody waits for a direct
// request that has not begun: it has locked no page, and a recall waits for those alone that were
// let in. Invariants:
//   1. At most `max_served` are served at a time; those parked come in their order.
//   2. Where a caller gives up one that is parked, it is answered EINTR: when the kernel says so,
//      or its signal has been seen (client/fuse/request/pending_signals.h).
//   3. When `max_parked` are, a worker waits with the next one, or that waits in the kernel. Then
//      the kernel's places may all be taken. Where an invalidation, which may need one, is under
//      way for `stall_ms`, and no direct request has ended meanwhile, those parked are answered
//      EAGAIN: what they wait behind may be waiting for the invalidation.
// Threads: all methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "client/fuse/request/kernel_request.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::client {

class DirectGate {
 public:
  struct Options {
    std::uint32_t max_served = 0;
    std::uint32_t max_parked = 0;
    std::uint32_t stall_ms = 0;
  };
  // A request that waits: its bytes, or where they stay until it is served.
  struct Parked {
    std::uint64_t unique = 0;
    std::vector<std::byte> bytes = {};
    KernelRequest* place = nullptr;
    // The caller, where the kernel may not tell that it was interrupted; 0: it does.
    pid_t looked_at = 0;
    bool signal_seen = false;
  };
  // `answer(parked, errno)` ends a request.
  using Answer = std::function<void(const Parked& parked, int error)>;
  // Of one that waits, its own memory (a request of io_uring holds its entry), or a copy of it.
  enum class Keeps { kPlace, kCopy };
  DirectGate(const Options& options, Answer answer);
  ~DirectGate();

  // True: it may be served, and Leave follows. False: it is kept for later, or has been answered.
  bool Enter(KernelRequest& request, Keeps keeps);
  // One has been served. The one that is to be served in its place, if any.
  std::optional<Parked> Leave();

  // Its caller gave up: EINTR, also where it comes only now. False: it is not parked.
  bool Interrupt(std::uint64_t unique);
  // The kernel is told to drop pages, and may wait for their write-back; until it has.
  void BeginInvalidation();
  void EndInvalidation();

  // From now on nothing that is parked is served or given up, and nobody waits to be let in. Of the
  // owner's thread.
  void Stop();

 private:
  bool IsFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return parked_.size() >= options_.max_parked;
  }
  void Watch();
  void WatchSignals();
  // Gives up those whose callers' signals have been seen twice.
  void LookForSignals();
  // Returns what is to be given up.
  std::deque<Parked> TakeStalled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Answer answer_;
  Mutex mutex_;
  CondVar changed_;  // something was taken out, or it stops
  CondVar watch_;    // it is full, or it stops
  CondVar looked_;   // one is parked whose caller is looked at, or it stops
  std::uint32_t served_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;  // direct requests, ever
  std::uint32_t invalidations_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Parked> parked_ ABSL_GUARDED_BY(mutex_);
  static constexpr std::size_t kMostEarly = 256;
  std::deque<std::uint64_t> early_ ABSL_GUARDED_BY(mutex_);  // given up, and not parked then
  Thread watcher_;
  Thread looker_;
};

}  // namespace reel::client
