// A small io_uring for entries of FUSE: commands to /dev/fuse, and a descriptor that wakes it.
//
// Commands are only queued; Wait enters the kernel once for all of them, and waits. The kernel
// copies requests in while the ring's thread is in Wait, and only then. Invariants:
//   1. /dev/fuse is used by its plain descriptor: registered with a ring that lives on, it would
//      keep the connection alive.
// Threads: a ring belongs to the thread that made it.
#pragma once

#include <liburing.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/fuse/uring/uring_entry.h"

namespace reel::client {

// For how long nothing comes before memory that large requests have left is freed.
inline constexpr std::uint32_t kUringLeisureMs = 1'000;

class UringRing {
 public:
  UringRing() = default;
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  // The kernel takes back the entries whose commands are under way.
  ~UringRing();

  // `in_flight`: commands that are under way at a time, as a rule. UNIMPLEMENTED: the kernel lacks
  // what this takes.
  absl::Status Init(unsigned in_flight);

  // `dev_fuse` is that of all commands from now on.
  void Use(int dev_fuse) { dev_fuse_ = dev_fuse; }
  void Register(UringEntry& entry);
  void Commit(UringEntry& entry);
  // Completes, once, when the descriptor can be read.
  void Watch(int wake_fd);

  // Submits, waits until something has completed, and hands over all that has: an entry and the
  // command's result, or null for the watched descriptor. False where the kernel refuses the ring.
  bool Wait(absl::FunctionRef<void(UringEntry* entry, int result)> completed);
  // The same, for so long at most. `*nothing_came`: for all that time, and the kernel has all that
  // was queued.
  bool WaitFor(std::uint32_t limit_ms, bool* nothing_came,
               absl::FunctionRef<void(UringEntry* entry, int result)> completed);
  // The same without waiting.
  bool Submit(absl::FunctionRef<void(UringEntry* entry, int result)> completed);

 private:
  io_uring_sqe* Next();
  void Command(UringEntry& entry, UringOperation operation);
  // `result`: of the call that entered the kernel.
  bool Reap(int result, absl::FunctionRef<void(UringEntry* entry, int result)> completed);

  io_uring ring_{};
  bool made_ = false;
  int dev_fuse_ = -1;
};

}  // namespace reel::client
