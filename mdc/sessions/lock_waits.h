// Operations that wait for advisory locks or for lock tokens.
//
// The lock table knows which locks are wanted; this class knows the operations that want them. It
// runs none: the core takes those whose turn has come. Invariants:
//   1. An operation waits here once at most, for a lock or for a token.
//   2. An operation that waits for a lock is a wait of the lock table too, under the number in
//      Pending::lock_wait. Both end together.
//   3. The operations that wait for locks of one inode are tried in the order in which they came.
//      One that has to wait on keeps none behind it from its lock. Those that wait for a token have
//      their turn in that order too.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "mdc/tables/lock_table.h"
#include "mdc/tables/session_table.h"

namespace reel::mdc {

class LockWaits {
 public:
  // The waits of `locks` are added and ended here.
  explicit LockWaits(LockTable& locks) : locks_(locks) {}

  // REQUIRES: the request is for a lock that FromProto accepts, and waits nowhere.
  void AddForLock(const PendingRef& op);
  // REQUIRES: the request is about locks of that inode, and waits nowhere.
  void AddForToken(InodeNumber inode, const PendingRef& op);

  // Locks of the inode have become weaker, or known to the controller: its waits are due.
  void Wake(InodeNumber inode) { due_.insert(inode); }
  bool AnyDue() const { return !due_.empty(); }
  // The lowest inode whose waits are due, which they are no longer; nullopt: none are.
  std::optional<InodeNumber> TakeDue();

  // Tries each operation that waits for a lock of the inode. It waits on where `try_one` returns
  // true, and no longer where that returns false.
  void TryLocks(InodeNumber inode, absl::FunctionRef<bool(const PendingRef&)> try_one);
  // All operations that wait for the inode's token, which wait no longer.
  std::vector<PendingRef> TakeForToken(InodeNumber inode);
  // The session's request for a lock that has that number among its waits, which waits no longer;
  // null: there is none.
  PendingRef Take(SessionId session, std::uint64_t wait);
  // Nothing of the session waits any longer.
  void Drop(SessionId session);

 private:
  void EndInTable(const Pending& op);

  LockTable& locks_;
  absl::flat_hash_map<std::uint64_t, PendingRef> for_locks_;  // by the lock table's number
  // By inode, in the order in which they came.
  absl::flat_hash_map<InodeNumber, std::vector<PendingRef>> for_tokens_;
  absl::btree_set<InodeNumber> due_;
};

}  // namespace reel::mdc
