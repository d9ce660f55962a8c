// Lock tokens: which session decides by itself about an inode's advisory locks.
//
// Pure policy, as the lock table. A session holds an inode's token while it alone uses locks of it;
// what it locks and unlocks then is not in the lock table. Whoever else wants to know first recalls
// the token, and waits for the answer, which says what is held. Invariants:
//   1. An inode has one token at most.
//   2. Numbers are never used twice, not in a later epoch either: an answer to an old recall gives
//      up nothing that was granted since.
// Threads: the core thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "mdc/tables/session_inodes.h"
#include "volume/base/types.h"

namespace reel::mdc {

struct LockToken {
  InodeNumber inode;
  SessionId session;
  std::uint64_t number = 0;
  bool recalled = false;
  bool contended = false;  // another session wants a lock
};

class LockTokens {
 public:
  // Tokens that a session may hold, some 100 bytes each.
  static constexpr std::uint64_t kMaxTokens = 1 << 16;

  // Before anything is granted.
  void Begin(Epoch epoch) { last_number_ = epoch.value() << 32; }

  // The inode's; null: nobody holds it.
  const LockToken* Find(InodeNumber inode) const;
  bool MayHoldMore(SessionId session) const;
  std::uint64_t NextNumber() const { return last_number_ + 1; }
  // Under NextNumber. REQUIRES: nobody holds it, and the session may hold more.
  void Grant(InodeNumber inode, SessionId session);
  // Notes that it is wanted back; false: it was before. REQUIRES: somebody holds it.
  bool Recall(InodeNumber inode, bool contended);
  // It is over; false: the session has no such token.
  bool Return(InodeNumber inode, SessionId session, std::uint64_t number);
  // Whatever its number.
  bool Break(InodeNumber inode, SessionId session);
  // Those of `most` inodes, the session's lowest ones, are over; these inodes.
  std::vector<InodeNumber> Drop(SessionId session, std::size_t most = SIZE_MAX);
  // At most so many of the session's that are wanted back, of `from` and later inodes.
  std::vector<LockToken> RecalledLocks(SessionId session, InodeNumber from, std::size_t most) const;

  // By inode.
  std::vector<LockToken> All() const;
  std::size_t size() const { return tokens_.size(); }

 private:
  using Tokens = absl::btree_map<InodeNumber, LockToken>;
  void Erase(Tokens::iterator token);

  Tokens tokens_;
  SessionInodes inodes_;
  std::uint64_t last_number_ = 0;
};

}  // namespace reel::mdc
