#include "mdc/tables/lock_tokens.h"

#include <utility>

#include "volume/base/check.h"

namespace reel::mdc {

const LockToken* LockTokens::Find(InodeNumber inode) const {
  const auto found = tokens_.find(inode);
  return found == tokens_.end() ? nullptr : &found->second;
}

bool LockTokens::MayHoldMore(SessionId session) const {
  const auto mine = inodes_.find(session);
  return mine == inodes_.end() || mine->second.held.size() < kMaxTokens;
}

void LockTokens::Grant(InodeNumber inode, SessionId session) {
  const bool added =
      tokens_
          .emplace(inode, LockToken{.inode = inode, .session = session, .number = ++last_number_})
          .second;
  REEL_CHECK(added, "an inode has one lock token");
  inodes_[session].held.insert(inode);
}

bool LockTokens::Recall(InodeNumber inode, bool contended) {
  LockToken& token = tokens_.at(inode);
  token.contended |= contended;
  inodes_[token.session].recalled.insert(inode);
  return !std::exchange(token.recalled, true);
}

void LockTokens::Erase(Tokens::iterator token) {
  const auto mine = inodes_.find(token->second.session);
  mine->second.recalled.erase(token->first);
  mine->second.held.erase(token->first);
  if (mine->second.held.empty()) inodes_.erase(mine);
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

std::vector<InodeNumber> LockTokens::Drop(SessionId session, std::size_t most) {
  std::vector<InodeNumber> dropped;
  const auto mine = inodes_.find(session);
  if (mine == inodes_.end()) return dropped;
  const auto& held = mine->second.held;
  for (auto it = held.begin(); it != held.end() && dropped.size() < most; ++it) {
    dropped.push_back(*it);
  }
  for (const InodeNumber inode : dropped) Break(inode, session);
  return dropped;
}

std::vector<LockToken> LockTokens::Recalled(SessionId session, InodeNumber from,
                                            std::size_t most) const {
  std::vector<LockToken> recalled;
  const auto mine = inodes_.find(session);
  if (mine == inodes_.end()) return recalled;
  const auto& inodes = mine->second.recalled;
  for (auto it = inodes.lower_bound(from); it != inodes.end() && recalled.size() < most; ++it) {
    recalled.push_back(tokens_.at(*it));
  }
  return recalled;
}

std::vector<LockToken> LockTokens::All() const {
  std::vector<LockToken> all;
  all.reserve(tokens_.size());
  for (const auto& [inode, token] : tokens_) all.push_back(token);
  return all;
}

}  // namespace reel::mdc
