// The I/O engine of image files and block devices: one io_uring per thread.
//
// Start only fills a submission entry; Drain enters the kernel once for all that was started and
// returns when all of it has completed. A request that stays alone is performed with
// preadv/pwritev: one system call as well, without the switch to a kernel thread and back that file
// systems without asynchronous reads cost. Where the kernel refuses io_uring (seccomp, a sysctl, an
// old kernel), Start performs each request at once with preadv/pwritev. Invariants:
//   1. No more requests are in flight than the ring has entries, so completions are never dropped.
//   2. Nothing is in flight between two batches of a thread.
// Threads: a Uring belongs to one thread.
#pragma once

#include <liburing.h>

#include <array>
#include <cstdint>
#include <vector>

#include "volume/lun/lun.h"

namespace reel {

// What requests go to.
struct UringFile {
  int fd = -1;
  bool device = false;  // a block device: what its errors say is known (volume/lun/device_fault.h)
};

class Uring {
 public:
  enum class Mode { kRing, kBlocking };
  static constexpr unsigned kEntries = 256;

  // kRing becomes kBlocking where the kernel refuses; that is logged once a process.
  explicit Uring(Mode mode);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // The calling thread's own. After a fork the child gets a new one.
  static Uring& ForThisThread();
  // ForThisThread().Drain(), without making a ring where the thread has none.
  static void DrainThisThread();

  // Queues one request; waits only when the ring is full. It completes at the latest in Drain.
  void Start(UringFile file, LunRequest& request);
  // Waits until nothing is in flight.
  void Drain();

  Mode mode() const { return mode_; }

 private:
  struct Flight {
    LunRequest* request = nullptr;
    UringFile file;
  };
  void Queue(const Flight& flight);
  void SubmitAndWait(unsigned completions);
  void Reap();
  void Finish(const Flight& flight, int result);

  Mode mode_;
  Flight first_;  // started and not queued: nothing else is in flight
  io_uring ring_{};
  std::array<Flight, kEntries> flights_;  // by the entry's user data
  std::vector<std::uint16_t> free_;       // places of flights_ that are free
};

}  // namespace reel
