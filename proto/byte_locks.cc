#include "proto/byte_locks.h"

#include <algorithm>
#include <iterator>

namespace reel {

void ByteLocks::Set(LockRange range, v1::LockType type) {
  auto it = ranges_.upper_bound(range.first);
  if (it != ranges_.begin()) --it;
  while (it != ranges_.end() && it->first <= range.last) {
    const std::uint64_t first = it->first;
    const Tail tail = it->second;
    if (tail.last < range.first) {
      ++it;
      continue;
    }
    it = ranges_.erase(it);
    if (first < range.first) ranges_.emplace(first, Tail{range.first - 1, tail.type});
    if (tail.last > range.last) it = ranges_.emplace(range.last + 1, tail).first;
  }
  if (type == v1::LOCK_NONE) return;
  it = ranges_.emplace(range.first, Tail{range.last, type}).first;
  const auto next = std::next(it);
  if (next != ranges_.end() && next->second.type == type && next->first - 1 == range.last) {
    it->second.last = next->second.last;
    ranges_.erase(next);
  }
  if (it == ranges_.begin()) return;
  const auto before = std::prev(it);
  if (before->second.type == type && before->second.last == range.first - 1) {
    before->second.last = it->second.last;
    ranges_.erase(it);
  }
}

std::vector<ByteLocks::LockedRange> ByteLocks::In(LockRange range) const {
  std::vector<LockedRange> found;
  auto it = ranges_.upper_bound(range.first);
  if (it != ranges_.begin()) --it;
  for (; it != ranges_.end() && it->first <= range.last; ++it) {
    if (it->second.last < range.first) continue;
    found.push_back({{std::max(it->first, range.first), std::min(it->second.last, range.last)},
                     it->second.type});
  }
  return found;
}

std::optional<ByteLocks::LockedRange> ByteLocks::Conflict(LockRange range,
                                                          v1::LockType type) const {
  for (const LockedRange& locked_range : In(range)) {
    if (locked_range.type == v1::LOCK_EXCLUSIVE || type == v1::LOCK_EXCLUSIVE) return locked_range;
  }
  return std::nullopt;
}

}  // namespace reel
