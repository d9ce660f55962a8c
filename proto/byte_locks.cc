#include "proto/byte_locks.h"

#include <algorithm>
#include <iterator>

namespace reel {

void ByteLocks::Set(LockRange range, v1::LockType type) {
  auto it = pieces_.upper_bound(range.first);
  if (it != pieces_.begin()) --it;
  while (it != pieces_.end() && it->first <= range.last) {
    const std::uint64_t first = it->first;
    const Tail tail = it->second;
    if (tail.last < range.first) {
      ++it;
      continue;
    }
    it = pieces_.erase(it);
    if (first < range.first) pieces_.emplace(first, Tail{range.first - 1, tail.type});
    if (tail.last > range.last) it = pieces_.emplace(range.last + 1, tail).first;
  }
  if (type == v1::LOCK_NONE) return;
  it = pieces_.emplace(range.first, Tail{range.last, type}).first;
  const auto next = std::next(it);
  if (next != pieces_.end() && next->second.type == type && next->first - 1 == range.last) {
    it->second.last = next->second.last;
    pieces_.erase(next);
  }
  if (it == pieces_.begin()) return;
  const auto before = std::prev(it);
  if (before->second.type == type && before->second.last == range.first - 1) {
    before->second.last = it->second.last;
    pieces_.erase(it);
  }
}

std::vector<ByteLocks::Piece> ByteLocks::In(LockRange range) const {
  std::vector<Piece> found;
  auto it = pieces_.upper_bound(range.first);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first <= range.last; ++it) {
    if (it->second.last < range.first) continue;
    found.push_back({{std::max(it->first, range.first), std::min(it->second.last, range.last)},
                     it->second.type});
  }
  return found;
}

std::optional<ByteLocks::Piece> ByteLocks::Conflict(LockRange range, v1::LockType type) const {
  for (const Piece& piece : In(range)) {
    if (piece.type == v1::LOCK_EXCLUSIVE || type == v1::LOCK_EXCLUSIVE) return piece;
  }
  return std::nullopt;
}

}  // namespace reel
