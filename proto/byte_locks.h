// The byte-range locks of one owner on one file, as fcntl(2) has them: what an owner sets replaces
// what it had in that range.
//
// Invariants: pieces are disjoint, in order, and neighbours of one type are one piece. The first
// and the last byte of a range both belong to it, so that "to the end" needs no 65th bit. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "proto/locks.pb.h"

namespace reel {

struct LockRange {
  std::uint64_t first = 0;  // bytes
  std::uint64_t last = 0;   // included
  friend bool operator==(const LockRange&, const LockRange&) = default;
};

class ByteLocks {
 public:
  struct LockedRange {
    LockRange range;
    v1::LockType type = v1::LOCK_NONE;
    friend bool operator==(const LockedRange&, const LockedRange&) = default;
  };

  // The owner's lock on the range becomes `type`; LOCK_NONE unlocks it. REQUIRES: first <= last.
  void Set(LockRange range, v1::LockType type);
  // The pieces in the range, cut to it.
  std::vector<LockedRange> In(LockRange range) const;
  std::vector<LockedRange> All() const { return In({0, ~std::uint64_t{0}}); }
  // The first piece that keeps another owner from locking the range so.
  std::optional<LockedRange> Conflict(LockRange range, v1::LockType type) const;

  bool empty() const { return ranges_.empty(); }
  std::size_t size() const { return ranges_.size(); }

 private:
  struct Tail {
    std::uint64_t last;
    v1::LockType type;
  };
  std::map<std::uint64_t, Tail> ranges_;  // by first byte
};

}  // namespace reel
