#include "mdc/tables/token_table.h"

#include <algorithm>

namespace reel::mdc {

const TokenTable::Holder* TokenTable::Find(SessionId session, InodeNumber inode) const {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return nullptr;
  for (const Holder& holder : found->second) {
    if (holder.session == session) return &holder;
  }
  return nullptr;
}

v1::TokenMode TokenTable::Held(SessionId session, InodeNumber inode, const TokenSpan& span) const {
  const Holder* holder = Find(session, inode);
  return holder == nullptr ? v1::TOKEN_NONE : holder->held.Least(span);
}

v1::TokenMode TokenTable::Most(SessionId session, InodeNumber inode) const {
  const Holder* holder = Find(session, inode);
  return holder == nullptr ? v1::TOKEN_NONE : holder->held.Most();
}

bool TokenTable::OthersAtMost(SessionId session, InodeNumber inode, v1::TokenMode allowed,
                              const TokenSpan& span) const {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [&](const Holder& holder) {
    return holder.session == session || holder.held.Most(span) <= allowed;
  });
}

TokenSpan TokenTable::WidestAround(SessionId session, InodeNumber inode, v1::TokenMode allowed,
                                   const TokenSpan& span) const {
  TokenSpan widest;
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return widest;
  for (const Holder& holder : found->second) {
    if (holder.session == session) continue;
    const TokenSpan room = holder.held.WidestAround(span, allowed);
    widest.first = std::max(widest.first, room.first);
    widest.end = std::min(widest.end, room.end);
  }
  return widest;
}

std::vector<Recall> TokenTable::RecallOthers(SessionId session, InodeNumber inode,
                                             v1::TokenMode allowed, const TokenSpan& span) {
  std::vector<Recall> recalls;
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return recalls;
  for (Holder& holder : found->second) {
    if (holder.session == session || holder.held.Most(span) <= allowed) continue;
    const bool out =
        std::any_of(holder.recalled.begin(), holder.recalled.end(), [&](const Pending& pending) {
          return pending.mode <= allowed && pending.span.Contains(span);
        });
    if (out) continue;
    holder.recalled.push_back({span, allowed, ++last_recall_});
    inodes_.Want(holder.session, inode);
    recalls.push_back({holder.session, inode, allowed, span, last_recall_});
  }
  return recalls;
}

bool TokenTable::RecallPending(SessionId session, InodeNumber inode, const TokenSpan& span) const {
  const Holder* holder = Find(session, inode);
  return holder != nullptr &&
         std::any_of(holder->recalled.begin(), holder->recalled.end(),
                     [&](const Pending& pending) { return pending.span.Overlaps(span); });
}

bool TokenTable::AnyRecallPending(InodeNumber inode) const {
  const auto found = holders_.find(inode);
  return found != holders_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [](const Holder& holder) { return !holder.recalled.empty(); });
}

bool TokenTable::IsOut(SessionId session, InodeNumber inode, std::uint64_t number) const {
  const Holder* holder = Find(session, inode);
  return holder != nullptr &&
         std::any_of(holder->recalled.begin(), holder->recalled.end(),
                     [&](const Pending& pending) { return pending.number == number; });
}

std::vector<Recall> TokenTable::PendingRecalls(SessionId session, InodeNumber from,
                                               std::size_t most) const {
  std::vector<Recall> recalls;
  for (const InodeNumber inode : inodes_.Wanted(session, from, most)) {
    if (recalls.size() >= most) break;
    ++looked_at_;
    for (const Pending& pending : Find(session, inode)->recalled) {
      recalls.push_back({session, inode, pending.mode, pending.span, pending.number});
    }
  }
  return recalls;
}

void TokenTable::Grant(SessionId session, InodeNumber inode, v1::TokenMode mode,
                       const TokenSpan& span) {
  if (mode == v1::TOKEN_NONE || span.empty()) return;
  any_exclusive_ = any_exclusive_ || mode == v1::TOKEN_EXCLUSIVE;
  std::vector<Holder>& holders = holders_[inode];
  auto holder = std::find_if(holders.begin(), holders.end(),
                             [&](const Holder& h) { return h.session == session; });
  if (holder == holders.end()) {
    holders.emplace_back().session = session;
    holder = holders.end() - 1;
    inodes_.Hold(session, inode);
  }
  const std::size_t before = holder->held.granted().size();
  holder->held.Raise(span, mode);
  Count(session, before, holder->held.granted().size());
}

void TokenTable::Count(SessionId session, std::size_t before, std::size_t after) {
  if (before == after) return;
  std::uint64_t& count = counts_[session];
  count += after - before;
  if (count == 0) counts_.erase(session);
}

bool TokenTable::Return(SessionId session, InodeNumber inode, v1::TokenMode mode,
                        const TokenSpan& span) {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return false;
  std::vector<Holder>& holders = found->second;
  const auto holder = std::find_if(holders.begin(), holders.end(),
                                   [&](const Holder& h) { return h.session == session; });
  if (holder == holders.end()) return false;
  bool changed = holder->held.Most(span) > mode;
  const std::size_t before = holder->held.granted().size();
  holder->held.Lower(span, mode);
  Count(session, before, holder->held.granted().size());
  changed |= std::erase_if(holder->recalled, [&](const Pending& pending) {
               return holder->held.Most(pending.span) <= pending.mode;
             }) > 0;
  if (holder->held.empty()) {
    inodes_.Drop(session, inode);
    holders.erase(holder);
    if (holders.empty()) holders_.erase(found);
  } else if (holder->recalled.empty()) {
    inodes_.Keep(session, inode);
  }
  return changed;
}

void TokenTable::Forget(InodeNumber inode) {
  const auto found = holders_.find(inode);
  if (found == holders_.end()) return;
  for (const Holder& holder : found->second) {
    Count(holder.session, holder.held.granted().size(), 0);
    inodes_.Drop(holder.session, inode);
  }
  holders_.erase(found);
}

std::vector<InodeNumber> TokenTable::Drop(SessionId session, std::size_t most) {
  std::vector<InodeNumber> inodes = inodes_.Lowest(session, most);
  looked_at_ += inodes.size();
  for (const InodeNumber inode : inodes) {
    const auto entry = holders_.find(inode);
    std::vector<Holder>& holders = entry->second;
    const auto holder = std::find_if(holders.begin(), holders.end(),
                                     [&](const Holder& h) { return h.session == session; });
    Count(session, holder->held.granted().size(), 0);
    holders.erase(holder);
    if (holders.empty()) holders_.erase(entry);
    inodes_.Drop(session, inode);
  }
  return inodes;
}

std::uint64_t TokenTable::CountOf(SessionId session) const {
  const auto found = counts_.find(session);
  return found == counts_.end() ? 0 : found->second;
}

void OpenTable::Open(SessionId session, InodeNumber inode) {
  if (by_session_[session].insert(inode).second) ++total_[inode];
}

bool OpenTable::Close(SessionId session, InodeNumber inode) {
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end() || mine->second.erase(inode) == 0) return false;
  if (mine->second.empty()) by_session_.erase(mine);
  const auto total = total_.find(inode);
  if (--total->second > 0) return false;
  total_.erase(total);
  return true;
}

bool OpenTable::IsOpenBy(SessionId session, InodeNumber inode) const {
  const auto mine = by_session_.find(session);
  return mine != by_session_.end() && mine->second.contains(inode);
}

std::vector<InodeNumber> OpenTable::Drop(SessionId session, std::size_t most) {
  std::vector<InodeNumber> inodes, closed;
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return closed;
  for (auto it = mine->second.begin(); it != mine->second.end() && inodes.size() < most; ++it) {
    inodes.push_back(*it);
  }
  for (const InodeNumber inode : inodes) {
    if (Close(session, inode)) closed.push_back(inode);
  }
  return closed;
}

std::vector<InodeNumber> OpenTable::Lowest(SessionId session, std::size_t most) const {
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return {};
  const auto end = std::next(mine->second.begin(),
                             static_cast<std::ptrdiff_t>(std::min(most, mine->second.size())));
  return {mine->second.begin(), end};
}

std::uint64_t OpenTable::CountOf(SessionId session) const {
  const auto mine = by_session_.find(session);
  return mine == by_session_.end() ? 0 : mine->second.size();
}

}  // namespace reel::mdc
