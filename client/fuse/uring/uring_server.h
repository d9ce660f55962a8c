// FUSE over io_uring: all queues of a connection, their entries, and the threads that serve them.
//
// Each possible CPU has a queue in the kernel, and requests of a CPU come to its queue. Some of its
// entries have a thread each (UringResident), and are given out first; the others are spare ones,
// kept by one thread for several queues (UringKeeper), whose requests are served by helpers
// (UringHelpers).
//
// The kernel takes the entry that came back last. So after many requests at once a spare one may
// lie on top, and a program that makes one call after the other would get that one for ever, with
// two more threads for each call. A spare entry that is used while a resident is idle therefore
// gets a resident of its own, up to a number of them. Invariants:
//   1. A request that waits, for another host or for a lock, holds its entry. The kernel never
//      finds a queue without one for a request on whose answer others depend: see
//      docs/internals/deadlock-freedom.md. So all are registered before the mount is handed to
//      anybody: one that is registered later gets none of the requests that already wait.
//   2. Direct requests, which may wait for other hosts, take not all entries nor helpers
//      (DirectGate); those that are parked hold their entry, and no thread.
//   3. No thread ends while the kernel has an entry of its ring, but with the connection: a request
//      on its way to it would be lost.
//   4. Once stopped, requests that come are left unanswered: the owner ends the connection, and so
//      the kernel answers them (ConnectionAbort). It puts no other request into an entry of one
//      that is still being served.
// Threads: of the owner, but for AnswerParked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/fuse/request/direct_gate.h"
#include "client/fuse/request/fuse_dispatcher.h"
#include "client/fuse/uring/uring_entry.h"
#include "client/fuse/uring/uring_helpers.h"
#include "client/fuse/uring/uring_keeper.h"
#include "client/fuse/uring/uring_memory.h"
#include "client/fuse/uring/uring_resident.h"
#include "client/fuse/uring/uring_stage.h"
#include "volume/base/mutex.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class UringServer {
 public:
  struct Options {
    std::uint32_t queues = 0;     // possible CPUs
    std::vector<int> cpus;        // those online: their queues have residents
    std::uint32_t entries = 0;    // of a queue
    std::uint32_t residents = 0;  // of them, of an online CPU
    std::uint32_t adopting = 0;   // how many more may come, of all CPUs
    std::uint32_t request_bytes = kUsualFuseRequestBytes;
    UringHelpers::Options helpers;
  };
  // As this machine has CPUs.
  static Options ForThisMachine(std::uint32_t idle_threads, std::uint32_t max_threads,
                                std::uint32_t request_bytes);

  // Starts all threads; nothing is asked of the kernel's FUSE yet. An error says what is missing.
  static absl::StatusOr<std::unique_ptr<UringServer>> Create(const Options& options,
                                                             FuseDispatcher& dispatcher,
                                                             DirectGate& gate,
                                                             std::function<void()> on_end);
  // REQUIRES: no request is being served that may hang.
  ~UringServer();

  // Gives the kernel all entries: requests come from here on. REQUIRES: the handshake promised it.
  absl::Status Register();
  // Begins no request any more.
  void Stop();
  // After Stop: whether none is being served.
  bool IsIdle();

  // Of one that the gate had kept.
  void AnswerParked(UringEntry& entry, int error);

 private:
  UringServer(const Options& options, FuseDispatcher& dispatcher, DirectGate& gate,
              std::function<void()> on_end, UringMemory memory);
  bool Start();
  void End();
  bool Serve(UringEntry& entry, bool let_in);
  void Help(const UringHelpers::Work& work);
  void HandOn(UringEntry& entry);
  void Return(UringEntry& entry);
  bool Adopt(UringEntry& entry);
  void GiveUp(UringEntry& entry);
  UringKeeper& KeeperOf(const UringEntry& entry) {
    return *keepers_[entry.queue() % keepers_.size()];
  }

  const Options options_;
  FuseDispatcher& dispatcher_;
  DirectGate& gate_;
  const std::function<void()> on_end_;
  const UringResident::Calls resident_calls_;
  const UringKeeper::Calls keeper_calls_;
  UniqueFd ended_fd_;
  UringStage stage_;
  const UringMemory memory_;
  std::unique_ptr<UringEntry[]> entries_;
  UringHelpers helpers_;
  std::vector<std::unique_ptr<UringKeeper>> keepers_;
  std::vector<std::unique_ptr<UringResident>> residents_;
  std::vector<std::atomic<std::uint32_t>> idle_;  // residents, by queue

  Mutex mutex_;
  std::vector<std::unique_ptr<UringResident>> adopted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
