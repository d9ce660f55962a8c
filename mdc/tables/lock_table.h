// Advisory locks of all sessions, fcntl(2)'s byte ranges and flock(2)'s whole files, and who waits
// for them.
//
// Pure policy, as the token table. An owner is a session, a kind and the number by which that
// client's kernel knows the holder; the kinds do not see each other (as in Linux). Waits stand
// in the order in which they came; after a lock became weaker each of an inode's waits is tried
// again, in that order. The controller keeps none of this on disk: clients claim their locks again
// in a new epoch. Sources: fcntl(2), flock(2); the search for deadlocks is fs/locks.c's idea, with
// all blockers of a wait instead of one. Threads: the core thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proto/byte_locks.h"
#include "proto/convert.h"
#include "proto/locks.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

struct LockOwner {
  SessionId session;
  v1::LockKind kind = v1::LOCK_RANGES;
  std::uint64_t number = 0;
  friend bool operator==(const LockOwner&, const LockOwner&) = default;
  friend auto operator<=>(const LockOwner&, const LockOwner&) = default;
};

// A lock that is held or wanted.
struct FileLock {
  InodeNumber inode;
  LockOwner owner;
  LockRange range;
  v1::LockType type = v1::LOCK_NONE;
  std::uint32_t pid = 0;  // in the client's host
};

// Beside those of extents and times, which they would hide.
using reel::FromProto;
using reel::ToProto;

// EINVAL: an unknown kind or type, or a range that ends before it begins.
absl::StatusOr<FileLock> FromProto(const v1::FileLock& lock, SessionId session);
v1::FileLock ToProto(const FileLock& lock);

// Pieces that a session may hold, some 100 bytes each. (By splitting those it has, it may come to
// twice as many.)
inline constexpr std::uint64_t kMaxLocks = 1 << 20;

class LockTable {
 public:
  // Some lock that stands in its way. REQUIRES: its type is not LOCK_NONE.
  std::optional<FileLock> Conflict(const FileLock& wanted) const;
  // REQUIRES: no conflict. LOCK_NONE unlocks.
  void Set(const FileLock& lock);
  // What the session has locked of `most` inodes, the lowest ones, is gone, and all its waits;
  // these inodes, on which others may wait.
  std::vector<InodeNumber> Drop(SessionId session, std::size_t most = SIZE_MAX);
  // Everything that the session holds on the inode is gone; what that was.
  std::vector<FileLock> Break(InodeNumber inode, SessionId session);
  // Another session holds locks of the inode, or somebody waits for one.
  bool IsShared(InodeNumber inode, SessionId session) const;

  // True when the wait would never end, because some owner in its way waits for it in turn. Only
  // ranges are looked at, as in Linux.
  bool WouldDeadlock(const FileLock& wanted) const;
  // A wait that begins; its number grows.
  std::uint64_t AddWait(const FileLock& wanted);
  void EndWait(InodeNumber inode, std::uint64_t number);
  // In the order in which they came.
  std::vector<std::uint64_t> WaitsFor(InodeNumber inode) const;

  // Pieces held.
  std::uint64_t CountOf(SessionId session) const;
  // By inode, then by owner.
  std::vector<FileLock> Held() const;
  std::vector<FileLock> Waiting() const;

 private:
  struct Holder {
    LockOwner owner;
    std::uint32_t pid = 0;
    ByteLocks locks;
  };
  using WaitKey = std::pair<InodeNumber, std::uint64_t>;
  std::vector<LockOwner> Blockers(const FileLock& wanted) const;
  void OwnerGone(SessionId session, InodeNumber inode);

  std::map<InodeNumber, std::vector<Holder>> holders_;
  absl::flat_hash_map<SessionId, std::uint64_t> counts_;
  // Of which inodes a session holds locks, by how many owners.
  absl::flat_hash_map<SessionId, absl::btree_map<InodeNumber, std::uint64_t>> inodes_;
  std::map<WaitKey, FileLock> waits_;
  std::set<std::pair<LockOwner, WaitKey>> waits_by_owner_;
  std::uint64_t last_wait_ = 0;
};

}  // namespace reel::mdc
