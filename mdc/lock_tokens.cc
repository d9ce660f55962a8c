#include "mdc/lock_tokens.h"

#include <utility>

#include "volume/check.h"

namespace reel::mdc {

const LockToken* LockTokens::Find(InodeNumber inode) const {
  const auto found = tokens_.find(inode);
  return found == tokens_.end() ? nullptr : &found->second;
}

bool LockTokens::MayHoldMore(SessionId session) const {
  const auto count = counts_.find(session);
  return count == counts_.end() || count->second < kMaxTokens;
}

void LockTokens::Grant(InodeNumber inode, SessionId session) {
  const bool added =
      tokens_
          .emplace(inode, LockToken{.inode = inode, .session = session, .number = ++last_number_})
          .second;
  REEL_CHECK(added, "an inode has one lock token");
  ++counts_[session];
}

bool LockTokens::Recall(InodeNumber inode, bool contended) {
  LockToken& token = tokens_.at(inode);
  token.contended |= contended;
  return !std::exchange(token.recalled, true);
}

void LockTokens::Erase(Tokens::iterator token) {
  const auto count = counts_.find(token->second.session);
  if (--count->second == 0) counts_.erase(count);
  tokens_.erase(token);
}

bool LockTokens::Return(InodeNumber inode, SessionId session, std::uint64_t number) {
  const auto found = tokens_.find(inode);
  if (found == tokens_.end() || found->second.number != number) return false;
  return Break(inode, session);
}

bool LockTokens::Break(InodeNumber inode, SessionId session) {
  const auto found = tokens_.find(inode);
  if (found == tokens_.end() || found->second.session != session) return false;
  Erase(found);
  return true;
}

std::vector<InodeNumber> LockTokens::Drop(SessionId session) {
  std::vector<InodeNumber> dropped;
  if (!counts_.contains(session)) return dropped;
  for (const auto& [inode, token] : tokens_) {
    if (token.session == session) dropped.push_back(inode);
  }
  for (const InodeNumber inode : dropped) Break(inode, session);
  return dropped;
}

std::vector<LockToken> LockTokens::All() const {
  std::vector<LockToken> all;
  all.reserve(tokens_.size());
  for (const auto& [inode, token] : tokens_) all.push_back(token);
  return all;
}

}  // namespace reel::mdc
