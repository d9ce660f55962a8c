// How much room the metadata store has, and the operations that wait for it.
//
// While the store grows, what makes it larger is held back until it has grown. While it has no room
// for its flushes and compactions to work in, commits are held, too. A commit completes what was
// granted, so it is never refused, and it waits as long as that takes.
//
// Invariants:
//   1. An operation that is held is marked as fetching, so nothing else runs it.
//   2. A held commit stands in no lane, nor does what is held back between two of its steps:
//   CancelOf
//      lets them end with their session.
//   3. Removals wait for nothing: neither their steps, nor commits and returns of what is removed.
//      Its blocks come back when its sessions have returned their tokens.
//   4. No return of a token passes a commit of its session that is held.
// Bounds: by what a session may have under way. Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "mdc/core/core.h"
#include "mdc/tables/session_table.h"

namespace reel::mdc {

class StoreRoom {
 public:
  using Space = Core::StoreSpace;
  using Removed = absl::flat_hash_set<InodeNumber>;  // inodes that are on the store's list
  enum class Wait {
    kNone,      // it may run now
    kToGrow,    // until the store has grown
    kToCommit,  // until the store has room to work in
  };

  // What the store has from now on. Take what is due afterwards.
  void Set(Space space, bool commits_wait, std::uint64_t now_ms);

  bool ample() const { return space_ == Space::kAmple || space_ == Space::kTight; }
  // Names and layouts may need what there is.
  bool tight() const { return space_ != Space::kAmple; }
  bool full() const { return space_ == Space::kFull; }
  // It has no more than it needs to work in.
  bool spent() const { return commits_wait_; }

  // What the operation has to wait for before it runs.
  Wait WaitOf(const Pending& op, const Removed& removed) const;
  // Holds the operation until it is taken. REQUIRES: `wait` is not kNone.
  void Hold(const PendingRef& op, Wait wait, std::uint64_t now_ms);

  // The commits that wait no longer, in the order in which they came; cancelled ones, too.
  std::vector<PendingRef> TakeDueCommits(const Removed& removed);
  // What waits no longer for the store to grow, likewise.
  std::vector<PendingRef> TakeDueGrowth();
  // The session is gone: what of it is held is not to run.
  void CancelOf(SessionId session);

  // Whether a commit of the session is held, or a return behind one; of this inode, where given.
  bool HoldsCommitOf(SessionId session, std::optional<InodeNumber> inode = std::nullopt) const;
  // Commits have waited for so long that clients are to acknowledge no more writes that need one.
  bool HoldsLong(std::uint64_t now_ms) const;
  // What people are told of a full store; empty: it is not full.
  std::string Alarm(std::uint64_t now_ms) const;

 private:
  // How long the first of the held commits has waited; 0: there is none.
  std::uint64_t LongestHeldMs(std::uint64_t now_ms) const;

  Space space_ = Space::kAmple;
  bool commits_wait_ = false;
  std::optional<std::uint64_t> full_since_ms_;
  std::vector<PendingRef> commits_;  // and returns behind them; until the store has room
  std::vector<PendingRef> growth_;   // until the store has grown
};

}  // namespace reel::mdc
