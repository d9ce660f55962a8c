// Which blocks of a file are being written, so that two writers of one block never mix what they
// know of it.
//
// A write of whole blocks shares them with others of its kind, as any file system lets concurrent
// writes of the same bytes end in either order; who changes a part of a block reads the rest first,
// and has the block alone. Invariants:
//   1. A block that somebody has alone, nobody else has.
//   2. No write begins on blocks that a flush waits for: a stream of writers that share them would
//      else never let it in.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace reel::client {

// Blocks that a write uses: shared with other whole-block writers, or alone (part of a block).
struct BlockLock {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  bool exclusive = false;
  bool Overlaps(const BlockLock& other) const { return first < other.end && other.first < end; }
  friend bool operator==(const BlockLock&, const BlockLock&) = default;
};
using BlockLocks = absl::InlinedVector<BlockLock, 4>;

class LockedBlocks {
 public:
  bool empty() const { return locks_.empty(); }
  // Somebody has one of them so that they cannot be had.
  bool Conflict(const BlockLocks& wanted) const;
  // Nobody has; nor does a flush wait for one.
  bool AdmitWrite(const BlockLocks& wanted) const;
  // REQUIRES: no conflict.
  void Lock(const BlockLocks& wanted) { locks_.insert(locks_.end(), wanted.begin(), wanted.end()); }
  // REQUIRES: they are locked by the caller.
  void Unlock(const BlockLocks& held);

  // Around the wait of a flush for its blocks.
  void BeginAwait(const BlockLock& wanted) { awaited_.push_back(wanted); }
  void EndAwait(const BlockLock& wanted);

 private:
  std::vector<BlockLock> locks_;
  std::vector<BlockLock> awaited_;  // by flushes
};

}  // namespace reel::client
