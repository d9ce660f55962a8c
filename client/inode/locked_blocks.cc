#include "client/inode/locked_blocks.h"

#include <algorithm>

namespace reel::client {

bool LockedBlocks::Conflict(const BlockLocks& wanted) const {
  for (const BlockLock& mine : wanted) {
    for (const BlockLock& theirs : locks_) {
      if (mine.Overlaps(theirs) && (mine.exclusive || theirs.exclusive)) return true;
    }
  }
  return false;
}

bool LockedBlocks::AdmitWrite(const BlockLocks& wanted) const {
  if (Conflict(wanted)) return false;
  return std::none_of(wanted.begin(), wanted.end(), [&](const BlockLock& mine) {
    return std::any_of(awaited_.begin(), awaited_.end(),
                       [&](const BlockLock& flush) { return mine.Overlaps(flush); });
  });
}

void LockedBlocks::Unlock(const BlockLocks& held) {
  for (const BlockLock& mine : held) {
    const auto it = std::find(locks_.begin(), locks_.end(), mine);
    *it = locks_.back();
    locks_.pop_back();
  }
}

void LockedBlocks::EndAwait(const BlockLock& wanted) {
  awaited_.erase(std::find(awaited_.begin(), awaited_.end(), wanted));
}

}  // namespace reel::client
