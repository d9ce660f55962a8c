#include "mdc/token_table.h"

#include <algorithm>

namespace reel::mdc {

v1::TokenMode TokenTable::Held(SessionId session, InodeNumber inode) const {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return v1::TOKEN_NONE;
  for (const Holder& holder : found->second) {
    if (holder.session == session) return holder.mode;
  }
  return v1::TOKEN_NONE;
}

bool TokenTable::OthersAtMost(SessionId session, InodeNumber inode, v1::TokenMode allowed) const {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [&](const Holder& holder) {
    return holder.session == session || holder.mode <= allowed;
  });
}

std::vector<Recall> TokenTable::RecallOthers(SessionId session, InodeNumber inode,
                                             v1::TokenMode allowed) {
  std::vector<Recall> recalls;
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return recalls;
  for (Holder& holder : found->second) {
    if (holder.session == session || holder.mode <= allowed) continue;
    if (holder.recalled && holder.recalled_to <= allowed) continue;
    holder.recalled = true;
    holder.recalled_to = allowed;
    recalls.push_back({holder.session, inode, allowed});
  }
  return recalls;
}

bool TokenTable::RecallPending(SessionId session, InodeNumber inode) const {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Holder& holder) {
    return holder.session == session && holder.recalled;
  });
}

bool TokenTable::AnyRecallPending(InodeNumber inode) const {
  const auto found = holders_.find(inode);
  return found != holders_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [](const Holder& holder) { return holder.recalled; });
}

std::vector<Recall> TokenTable::PendingRecalls(SessionId session) const {
  std::vector<Recall> recalls;
  for (const auto& [inode, holders] : holders_) {
    for (const Holder& holder : holders) {
      if (holder.session == session && holder.recalled) {
        recalls.push_back({session, inode, holder.recalled_to});
      }
    }
  }
  return recalls;
}

void TokenTable::Grant(SessionId session, InodeNumber inode, v1::TokenMode mode) {
  if (mode == v1::TOKEN_NONE) return;
  std::vector<Holder>& holders = holders_[inode];
  for (Holder& holder : holders) {
    if (holder.session != session) continue;
    holder.mode = std::max(holder.mode, mode);
    return;
  }
  holders.push_back({session, mode});
  ++counts_[session];
}

bool TokenTable::Return(SessionId session, InodeNumber inode, v1::TokenMode mode) {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return false;
  std::vector<Holder>& holders = found->second;
  const auto holder = std::find_if(holders.begin(), holders.end(),
                                   [&](const Holder& h) { return h.session == session; });
  if (holder == holders.end()) return false;
  bool changed = false;
  if (mode < holder->mode) {
    holder->mode = mode;
    changed = true;
  }
  if (holder->recalled && holder->mode <= holder->recalled_to) {
    holder->recalled = false;
    changed = true;
  }
  if (holder->mode == v1::TOKEN_NONE) {
    holders.erase(holder);
    if (holders.empty()) holders_.erase(found);
    const auto count = counts_.find(session);
    if (--count->second == 0) counts_.erase(count);
  }
  return changed;
}

void TokenTable::Forget(InodeNumber inode) {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return;
  for (const Holder& holder : found->second) {
    const auto count = counts_.find(holder.session);
    if (--count->second == 0) counts_.erase(count);
  }
  holders_.erase(found);
}

std::vector<InodeNumber> TokenTable::Drop(SessionId session) {
  std::vector<InodeNumber> inodes;
  if (counts_.erase(session) == 0) return inodes;
  for (auto entry = holders_.begin(); entry != holders_.end();) {
    std::vector<Holder>& holders = entry->second;
    const std::size_t before = holders.size();
    std::erase_if(holders, [&](const Holder& holder) { return holder.session == session; });
    if (holders.size() != before) inodes.push_back(entry->first);
    if (holders.empty()) {
      holders_.erase(entry++);
    } else {
      ++entry;
    }
  }
  // The table's order is random by design; what the core does next must not be.
  std::sort(inodes.begin(), inodes.end());
  return inodes;
}

std::uint64_t TokenTable::CountOf(SessionId session) const {
  const auto found = counts_.find(session);
  return found == counts_.end() ? 0 : found->second;
}

void OpenTable::Open(SessionId session, InodeNumber inode, std::uint32_t count) {
  if (count == 0) return;
  by_session_[session][inode] += count;
  total_[inode] += count;
}

bool OpenTable::Close(SessionId session, InodeNumber inode) {
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return false;
  const auto entry = mine->second.find(inode);
  if (entry == mine->second.end()) return false;
  if (--entry->second == 0) mine->second.erase(entry);
  if (mine->second.empty()) by_session_.erase(mine);
  const auto total = total_.find(inode);
  if (--total->second > 0) return false;
  total_.erase(total);
  return true;
}

std::uint32_t OpenTable::CountOf(SessionId session, InodeNumber inode) const {
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return 0;
  const auto entry = mine->second.find(inode);
  return entry == mine->second.end() ? 0 : entry->second;
}

std::vector<InodeNumber> OpenTable::Drop(SessionId session) {
  std::vector<InodeNumber> closed;
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return closed;
  for (const auto& [inode, count] : mine->second) {
    const auto total = total_.find(inode);
    total->second -= count;
    if (total->second > 0) continue;
    total_.erase(total);
    closed.push_back(inode);
  }
  by_session_.erase(mine);
  std::sort(closed.begin(), closed.end());
  return closed;
}

std::uint64_t OpenTable::CountOf(SessionId session) const {
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return 0;
  std::uint64_t sum = 0;
  for (const auto& [inode, count] : mine->second) sum += count;
  return sum;
}

}  // namespace reel::mdc
