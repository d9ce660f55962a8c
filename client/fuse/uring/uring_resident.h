// A thread with one entry of a queue for good, and a ring of its own: it serves the entry's
// requests one by one. Answering one and fetching the next is one system call. It has its entry
// from the beginning, or has adopted a spare one, which it then gives the kernel with its answer.
//
// It runs on its queue's CPU, which asked, as long as the requests are about names: waking another
// CPU is what costs there. Reads and writes are served anywhere, so that one stream has all CPUs.
// Threads: as said at each method.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "client/fuse/uring/uring_entry.h"
#include "client/fuse/uring/uring_ring.h"
#include "client/fuse/uring/uring_stage.h"
#include "volume/base/mutex.h"

namespace reel::client {

class UringResident {
 public:
  struct Calls {
    // Serves the entry's request. False: it is kept for later, and the entry comes back by
    // TakeBack.
    std::function<bool(UringEntry&)> serve;
    // The connection has ended.
    std::function<void()> on_end;
    // No ring is to be had: the entry stays a spare one.
    std::function<void(UringEntry&)> give_up;
  };
  struct Place {
    UringEntry& entry;
    bool adopted = false;
    std::atomic<std::uint32_t>& idle;  // residents of its queue whose entry the kernel has
    int ended_fd;                      // can be read from when the stage is kEnded
  };
  UringResident(UringStage& stage, const Place& place, const Calls& calls);
  UringResident(const UringResident&) = delete;
  UringResident& operator=(const UringResident&) = delete;
  ~UringResident() { Join(); }

  // Of the owner. False where no thread can be started.
  bool Start();
  void Join();
  // From any thread: the entry, with an answer.
  void TakeBack();
  // From any thread: whether it serves a request. Once the stage is kStopped it begins none.
  bool serving() const { return serving_.load(std::memory_order_seq_cst); }

 private:
  void Main();
  // The kernel has its entry. False: it does not become a resident.
  bool Begin(UringRing& ring);
  bool BeginWithAdopted(UringRing& ring, const absl::Status& made);
  absl::Status Register(UringRing& ring);
  // False: the ring cannot be used.
  bool Wait(UringRing& ring);
  // What has completed: whether there is a request.
  void OnCompletion(UringEntry* entry, int result);
  // True: it has an answer. It is left where it is else.
  bool ServeRequest();
  bool AwaitBack();
  void ChooseCpu() const;

  UringStage& stage_;
  UringEntry& entry_;
  const bool adopted_;
  std::atomic<std::uint32_t>& idle_;
  const int ended_fd_;
  const Calls& calls_;
  std::thread thread_;
  std::atomic<bool> serving_;  // it has a request, or an answer to begin with

  // Of its thread.
  bool has_request_ = false;
  int refusal_ = 0;  // errno of a command that the kernel refused

  Mutex mutex_;
  CondVar changed_;
  bool back_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace reel::client
