#include "mdc/tables/lock_table.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace reel::mdc {

absl::StatusOr<FileLock> FromProto(const v1::FileLock& lock, SessionId session) {
  const bool known = v1::LockKind_IsValid(lock.kind()) && v1::LockType_IsValid(lock.type());
  if (!known || lock.first() > lock.last() || lock.inode() == 0) {
    return ErrnoStatus(EINVAL, absl::StrCat("a lock of kind ", lock.kind(), " and type ",
                                            lock.type(), " on inode ", lock.inode(), ", bytes ",
                                            lock.first(), " to ", lock.last()));
  }
  return FileLock{.inode = InodeNumber(lock.inode()),
                  .owner = {session, lock.kind(), lock.owner()},
                  .range = {lock.first(), lock.last()},
                  .type = lock.type(),
                  .pid = lock.pid()};
}

v1::FileLock ToProto(const FileLock& lock) {
  v1::FileLock out;
  out.set_inode(lock.inode.value());
  out.set_kind(lock.owner.kind);
  out.set_owner(lock.owner.number);
  out.set_type(lock.type);
  out.set_first(lock.range.first);
  out.set_last(lock.range.last);
  out.set_pid(lock.pid);
  return out;
}

std::optional<FileLock> LockTable::Conflict(const FileLock& wanted) const {
  const auto found = holders_.find(wanted.inode);
  if (found == holders_.end()) return std::nullopt;
  for (const Holder& holder : found->second) {
    if (holder.owner == wanted.owner || holder.owner.kind != wanted.owner.kind) continue;
    if (const auto locked_range = holder.locks.Conflict(wanted.range, wanted.type)) {
      return FileLock{wanted.inode, holder.owner, locked_range->range, locked_range->type,
                      holder.pid};
    }
  }
  return std::nullopt;
}

std::vector<LockOwner> LockTable::Blockers(const FileLock& wanted) const {
  std::vector<LockOwner> blockers;
  const auto found = holders_.find(wanted.inode);
  if (found == holders_.end()) return blockers;
  for (const Holder& holder : found->second) {
    if (holder.owner == wanted.owner || holder.owner.kind != wanted.owner.kind) continue;
    if (holder.locks.Conflict(wanted.range, wanted.type)) blockers.push_back(holder.owner);
  }
  return blockers;
}

void LockTable::Set(const FileLock& lock) {
  std::vector<Holder>& holders = holders_[lock.inode];
  auto holder = std::find_if(holders.begin(), holders.end(),
                             [&](const Holder& other) { return other.owner == lock.owner; });
  if (holder == holders.end()) {
    holders.push_back({.owner = lock.owner, .pid = lock.pid, .locks = {}});
    holder = std::prev(holders.end());
    ++inodes_[lock.owner.session][lock.inode];
  }
  std::uint64_t& count = counts_[lock.owner.session];
  count -= holder->locks.size();
  holder->locks.Set(lock.range, lock.type);
  count += holder->locks.size();
  if (count == 0) counts_.erase(lock.owner.session);
  if (holder->locks.empty()) {
    holders.erase(holder);
    OwnerGone(lock.owner.session, lock.inode);
  }
  if (holders.empty()) holders_.erase(lock.inode);
}

void LockTable::OwnerGone(SessionId session, InodeNumber inode) {
  const auto mine = inodes_.find(session);
  const auto owners = mine->second.find(inode);
  if (--owners->second > 0) return;
  mine->second.erase(owners);
  if (mine->second.empty()) inodes_.erase(mine);
}

std::vector<InodeNumber> LockTable::Drop(SessionId session, std::size_t most) {
  std::vector<WaitKey> ended;
  for (auto it = waits_by_owner_.lower_bound({LockOwner{.session = session}, {}});
       it != waits_by_owner_.end() && it->first.session == session; ++it) {
    ended.push_back(it->second);
  }
  for (const auto& [inode, number] : ended) EndWait(inode, number);
  std::vector<InodeNumber> weaker;
  const auto mine = inodes_.find(session);
  if (mine == inodes_.end()) return weaker;
  std::uint64_t pieces = 0;
  auto next = mine->second.begin();
  for (; next != mine->second.end() && weaker.size() < most; ++next) {
    const auto entry = holders_.find(next->first);
    std::erase_if(entry->second, [&](const Holder& holder) {
      if (holder.owner.session != session) return false;
      pieces += holder.locks.size();
      return true;
    });
    if (entry->second.empty()) holders_.erase(entry);
    weaker.push_back(next->first);
  }
  mine->second.erase(mine->second.begin(), next);
  if (mine->second.empty()) inodes_.erase(mine);
  const auto count = counts_.find(session);
  if ((count->second -= pieces) == 0) counts_.erase(count);
  return weaker;
}

std::vector<FileLock> LockTable::Break(InodeNumber inode, SessionId session) {
  std::vector<FileLock> broken;
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return broken;
  for (const Holder& holder : found->second) {
    if (holder.owner.session != session) continue;
    for (const ByteLocks::LockedRange& locked_range : holder.locks.All()) {
      broken.push_back({inode, holder.owner, locked_range.range, locked_range.type, holder.pid});
    }
  }
  for (FileLock lock : broken) {
    lock.type = v1::LOCK_NONE;
    Set(lock);
  }
  return broken;
}

bool LockTable::IsShared(InodeNumber inode, SessionId session) const {
  const auto wait = waits_.lower_bound({inode, 0});
  if (wait != waits_.end() && wait->first.first == inode) return true;
  const auto found = holders_.find(inode);
  return found != holders_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const Holder& holder) { return holder.owner.session != session; });
}

bool LockTable::WouldDeadlock(const FileLock& wanted) const {
  if (wanted.owner.kind != v1::LOCK_RANGES) return false;
  std::set<LockOwner> seen;
  std::vector<LockOwner> next = Blockers(wanted);
  while (!next.empty()) {
    const LockOwner owner = next.back();
    next.pop_back();
    if (owner == wanted.owner) return true;
    if (!seen.insert(owner).second) continue;
    for (auto it = waits_by_owner_.lower_bound({owner, {}});
         it != waits_by_owner_.end() && it->first == owner; ++it) {
      const std::vector<LockOwner> blockers = Blockers(waits_.at(it->second));
      next.insert(next.end(), blockers.begin(), blockers.end());
    }
  }
  return false;
}

std::uint64_t LockTable::AddWait(const FileLock& wanted) {
  const WaitKey key(wanted.inode, ++last_wait_);
  waits_.emplace(key, wanted);
  waits_by_owner_.emplace(wanted.owner, key);
  return last_wait_;
}

void LockTable::EndWait(InodeNumber inode, std::uint64_t number) {
  const auto wait = waits_.find({inode, number});
  if (wait == waits_.end()) return;
  waits_by_owner_.erase({wait->second.owner, wait->first});
  waits_.erase(wait);
}

std::vector<std::uint64_t> LockTable::WaitsFor(InodeNumber inode) const {
  std::vector<std::uint64_t> found;
  for (auto it = waits_.lower_bound({inode, 0}); it != waits_.end() && it->first.first == inode;
       ++it) {
    found.push_back(it->first.second);
  }
  return found;
}

std::uint64_t LockTable::CountOf(SessionId session) const {
  const auto found = counts_.find(session);
  return found == counts_.end() ? 0 : found->second;
}

std::vector<FileLock> LockTable::Held() const {
  std::vector<FileLock> held;
  for (const auto& [inode, holders] : holders_) {
    for (const Holder& holder : holders) {
      for (const ByteLocks::LockedRange& locked_range : holder.locks.All()) {
        held.push_back({inode, holder.owner, locked_range.range, locked_range.type, holder.pid});
      }
    }
  }
  return held;
}

std::vector<FileLock> LockTable::Waiting() const {
  std::vector<FileLock> waiting;
  for (const auto& [key, wait] : waits_) waiting.push_back(wait);
  return waiting;
}

}  // namespace reel::mdc
