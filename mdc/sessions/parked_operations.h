// Operations that wait for an inode's tokens, and the inodes whose tokens have changed.
//
// The operations of one inode stand in line; the core runs the first one, and takes it out when
// that has an end. Invariants:
//   1. An operation stands in one line at most: that of Pending::queued_on.
//   2. A line keeps its order: who came first is first. Only who waits for the rest of a removal
//      goes before those who came earlier (kFirst).
//   3. A line that is woken stays so until it is taken, once; the lowest inode's is taken first.
// Bounds: by what a session may have under way. Threads: the core thread.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "mdc/tables/session_table.h"

namespace reel::mdc {

class ParkedOperations {
 public:
  enum class Place { kLast, kFirst };

  // REQUIRES: it stands in no line.
  void Add(InodeNumber inode, const PendingRef& op, Place place = Place::kLast);
  // REQUIRES: it stands in that line.
  void Remove(InodeNumber inode, const PendingRef& op);
  // Whose turn it is; null: nobody stands in line.
  PendingRef First(InodeNumber inode) const;
  bool Any(InodeNumber inode) const { return lines_.contains(inode); }
  // Somebody else than this operation.
  bool AnyBut(InodeNumber inode, const Pending& op) const;
  // An operation of the session stands in any line, and still is to run.
  bool AnyOf(SessionId session) const;
  // The session is gone: what stands in line of it is not to run, and these lines are woken.
  void CancelOf(SessionId session);

  // The inode's tokens may have changed.
  void Wake(InodeNumber inode) { woken_.insert(inode); }
  // The same where many change: only lines in which somebody stands are looked at again.
  void WakeIfAny(InodeNumber inode) {
    if (Any(inode)) Wake(inode);
  }
  // The next line that was woken; nullopt: none was.
  std::optional<InodeNumber> TakeWoken();

 private:
  absl::flat_hash_map<InodeNumber, std::deque<PendingRef>> lines_;  // none is empty
  absl::btree_set<InodeNumber> woken_;
};

}  // namespace reel::mdc
