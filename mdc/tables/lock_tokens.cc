#include "mdc/tables/lock_tokens.h"

#include <utility>

#include "volume/base/check.h"

namespace reel::mdc {

const LockToken* LockTokens::Find(InodeNumber inode) const {
  const auto found = tokens_.find(inode);
  return found == tokens_.end() ? nullptr : &found->second;
}

bool LockTokens::MayHoldMore(SessionId session) const {
  return inodes_.CountOf(session) < kMaxTokens;
}

void LockTokens::Grant(InodeNumber inode, SessionId session) {
  const bool added =
      tokens_
          .emplace(inode, LockToken{.inode = inode, .session = session, .number = ++last_number_})
          .second;
  REEL_CHECK(added, "an inode has one lock token");
  inodes_.Hold(session, inode);
}

bool LockTokens::Recall(InodeNumber inode, bool contended) {
  LockToken& token = tokens_.at(inode);
  token.contended |= contended;
  inodes_.Want(token.session, inode);
  return !std::exchange(token.recalled, true);
}

void LockTokens::Erase(Tokens::iterator token) {
  inodes_.Drop(token->second.session, token->first);
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
  std::vector<InodeNumber> dropped = inodes_.Lowest(session, most);
  for (const InodeNumber inode : dropped) Break(inode, session);
  return dropped;
}

std::vector<LockToken> LockTokens::RecalledLocks(SessionId session, InodeNumber from,
                                                 std::size_t most) const {
  std::vector<LockToken> recalled;
  for (const InodeNumber inode : inodes_.Wanted(session, from, most)) {
    recalled.push_back(tokens_.at(inode));
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
