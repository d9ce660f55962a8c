// A thread that keeps the spare entries of some queues: one is there for each request that finds
// all residents of its queue busy, or waiting for other hosts.
//
// It serves nothing itself, but hands a request on at once, and gives the kernel back each entry
// that has been answered. So what it keeps is never held up. When nothing has come for a second it
// frees the memory that large requests have left in its entries. Threads: as said at each method.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "client/fuse/uring/uring_entry.h"
#include "client/fuse/uring/uring_ring.h"
#include "client/fuse/uring/uring_stage.h"
#include "volume/base/mutex.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class UringKeeper {
 public:
  struct Calls {
    // A request is in the entry; never waits.
    std::function<void(UringEntry&)> hand_on;
    // The connection has ended.
    std::function<void()> on_end;
  };
  UringKeeper(UringStage& stage, std::vector<UringEntry*> entries, const Calls& calls);
  UringKeeper(const UringKeeper&) = delete;
  UringKeeper& operator=(const UringKeeper&) = delete;
  ~UringKeeper() { Join(); }

  // Of the owner. False where it cannot be started.
  bool Start();
  void Join();
  // From any thread: an entry of its queues, with an answer.
  void TakeBack(UringEntry& entry);
  // From any thread: looks at the stage.
  void Wake();

 private:
  void Main();
  absl::Status Register(UringRing& ring);
  void OnCompletion(UringEntry* entry, int result);
  void CommitReturned(UringRing& ring);
  // False: the ring cannot be used.
  bool Wait(UringRing& ring);

  UringStage& stage_;
  const std::vector<UringEntry*> entries_;
  const Calls& calls_;
  UniqueFd wake_;
  std::thread thread_;

  // Of its thread.
  bool woken_ = false;
  std::vector<UringEntry*> large_;  // the kernel has them; given back at leisure
  int refusal_ = 0;                 // errno of a command that the kernel refused

  Mutex mutex_;
  std::vector<UringEntry*> returned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
