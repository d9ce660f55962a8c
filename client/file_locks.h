// The advisory locks of this host's processes, which the controller keeps for all hosts.
//
// Each lock, unlock and test is a call; what is held is also kept here, so that it can be claimed
// again in a new epoch and let go when its owner closes the file. The kernel names an owner by a
// number: a process's table of open files for fcntl(2) ranges, the open file itself for those by
// open file description and for flock(2). It says when a process closes (Flush), but not when
// the last user of an open file does; so the handle that each lock came through is remembered.
// Invariants:
//   1. What is noted here is what the controller has answered: replies are taken in on the
//      receiving thread, in order.
//   2. A lock that is granted after its caller gave up waiting is given back at once.
//   3. An owner whose locks were lost (eviction, an administrator) gets EIO until it has closed the
//      file: it acted on a promise that no longer holds.
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "client/session.h"
#include "proto/byte_locks.h"
#include "volume/mutex.h"

namespace reel::client {

class FileLocks {
 public:
  // Once, before anything is locked; outlives this object's use.
  void Start(Session& session) { session_ = &session; }

  // What fcntl(2) calls "to the end of the file".
  static constexpr std::uint64_t kToEnd = (std::uint64_t{1} << 63) - 1;
  // Waits at once, each of which holds a thread of the mount.
  static constexpr std::uint32_t kMaxWaits = 256;

  struct Lock {
    std::uint64_t inode = 0;
    v1::LockKind kind = v1::LOCK_RANGES;
    std::uint64_t owner = 0;
    std::uint64_t handle = 0;  // the open file that it came through
    LockRange range;           // bytes
    v1::LockType type = v1::LOCK_NONE;
    std::uint32_t pid = 0;
  };

  // A number for an open file.
  std::uint64_t NewHandle() { return ++last_handle_; }

  // EAGAIN: another owner is in the way, and `wait` is false. EDEADLK, ENOLCK; EINTR: given up
  // waiting; EIO: the owner's locks were lost.
  absl::Status Set(const Lock& lock, bool wait, const Interrupt* interrupt);
  // A lock that is in the way, if there is one.
  absl::StatusOr<std::optional<v1::FileLock>> Test(const Lock& lock, const Interrupt* interrupt);
  // A process closes the file: its ranges go (close(2) waits for that while a controller answers).
  void Flush(std::uint64_t inode, std::uint64_t owner, const Interrupt* interrupt);
  // Nobody uses the open file any more.
  void Release(std::uint64_t inode, std::uint64_t handle, const Interrupt* interrupt);

  // On the receiving thread: session events.
  void AddTo(std::vector<v1::Reclaim>& reclaims) const;
  void OnEvicted();
  void OnBroken(std::uint64_t inode);

 private:
  struct Owner {
    v1::LockKind kind;
    std::uint64_t number;
    std::uint32_t pid;
    ByteLocks locks;
    std::set<std::uint64_t> handles;
    bool lost = false;
  };
  using Owners = std::vector<Owner>;

  Owner* Find(const Lock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const Lock& lock) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(const Lock& lock) ABSL_LOCKS_EXCLUDED(mutex_);
  void Unlock(const Lock& lock, const Interrupt* interrupt);
  bool IsLost(const Lock& lock) ABSL_LOCKS_EXCLUDED(mutex_);
  static void Lose(Owners& owners);

  Session* session_ = nullptr;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::uint64_t, Owners> by_inode_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> last_handle_{0};
  std::atomic<std::uint64_t> last_wait_{0};
  std::atomic<std::uint32_t> waits_{0};
};

}  // namespace reel::client
