#include "mdc/sessions/lock_waits.h"

#include <algorithm>
#include <utility>

namespace reel::mdc {

void LockWaits::AddForLock(const PendingRef& op) {
  const auto wanted = FromProto(op->request.set_lock().lock(), op->session);
  op->lock_wait = locks_.AddWait(*wanted);
  for_locks_[op->lock_wait] = op;
}

void LockWaits::AddForToken(InodeNumber inode, const PendingRef& op) {
  for_tokens_[inode].push_back(op);
}

std::optional<InodeNumber> LockWaits::TakeDue() {
  if (due_.empty()) return std::nullopt;
  const InodeNumber inode = *due_.begin();
  due_.erase(due_.begin());
  return inode;
}

void LockWaits::TryLocks(InodeNumber inode, absl::FunctionRef<bool(const PendingRef&)> try_one) {
  for (const std::uint64_t number : locks_.WaitsFor(inode)) {
    const auto wait = for_locks_.find(number);
    if (wait == for_locks_.end()) continue;
    const PendingRef op = wait->second;
    if (try_one(op)) continue;
    locks_.EndWait(inode, number);
    for_locks_.erase(number);  // by its number: the attempt may have moved the others
  }
}

std::vector<PendingRef> LockWaits::TakeForToken(InodeNumber inode) {
  const auto waits = for_tokens_.find(inode);
  if (waits == for_tokens_.end()) return {};
  std::vector<PendingRef> taken = std::move(waits->second);
  for_tokens_.erase(waits);
  return taken;
}

PendingRef LockWaits::Take(SessionId session, std::uint64_t wait) {
  const auto is_meant = [&](const PendingRef& op) {
    return op->session == session && op->request.has_set_lock() &&
           op->request.set_lock().wait() == wait;
  };
  for (auto it = for_locks_.begin(); it != for_locks_.end(); ++it) {
    if (!is_meant(it->second)) continue;
    PendingRef taken = it->second;
    EndInTable(*taken);
    for_locks_.erase(it);
    return taken;
  }
  for (auto& [inode, ops] : for_tokens_) {
    const auto found = std::find_if(ops.begin(), ops.end(), is_meant);
    if (found == ops.end()) continue;
    PendingRef taken = *found;
    ops.erase(found);
    return taken;
  }
  return nullptr;
}

void LockWaits::Drop(SessionId session) {
  absl::erase_if(for_locks_, [&](const auto& entry) {
    if (entry.second->session != session) return false;
    EndInTable(*entry.second);
    return true;
  });
  for (auto& [inode, ops] : for_tokens_) {
    std::erase_if(ops, [&](const PendingRef& op) { return op->session == session; });
  }
}

void LockWaits::EndInTable(const Pending& op) {
  locks_.EndWait(InodeNumber(op.request.set_lock().lock().inode()), op.lock_wait);
}

}  // namespace reel::mdc
