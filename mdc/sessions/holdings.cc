#include "mdc/sessions/holdings.h"

#include <algorithm>

namespace reel::mdc {

Holdings::Dropped Holdings::Drop(SessionId session, Releases& turn) {
  Dropped dropped;
  dropped.data = tokens.Drop(session, turn.room());
  turn.Spend(dropped.data.size());
  dropped.attributes = attr_tokens.Drop(session, turn.room());
  turn.Spend(dropped.attributes.size());
  const std::uint64_t held_open = opens.CountOf(session);
  dropped.closed = opens.Drop(session, turn.room());
  turn.Spend(held_open - opens.CountOf(session));
  const std::vector<InodeNumber> unlocked = locks.Drop(session, turn.room());
  turn.Spend(unlocked.size());
  for (const InodeNumber inode : unlocked) lock_waits.Wake(inode);
  const std::vector<InodeNumber> decided = lock_tokens.Drop(session, turn.room());
  turn.Spend(decided.size());
  for (const InodeNumber inode : decided) lock_waits.Wake(inode);
  dropped.all = turn.room() > 0;
  return dropped;
}

bool Holdings::IsOut(SessionId session, const RecallClock::Out& out) const {
  switch (out.kind) {
    case RecallClock::Kind::kData:
      return tokens.IsOut(session, out.inode, out.number);
    case RecallClock::Kind::kAttributes:
      return attr_tokens.IsOut(session, out.inode, out.number);
    case RecallClock::Kind::kLocks:
      break;
  }
  const LockToken* const token = lock_tokens.Find(out.inode);
  return token != nullptr && token->session == session && token->number == out.number;
}

std::vector<InodeNumber> Holdings::InodesOf(SessionId session, std::size_t most) const {
  std::vector<InodeNumber> inodes = opens.Lowest(session, most);
  const std::vector<InodeNumber> held = tokens.Lowest(session, most);
  inodes.insert(inodes.end(), held.begin(), held.end());
  std::sort(inodes.begin(), inodes.end());
  inodes.erase(std::unique(inodes.begin(), inodes.end()), inodes.end());
  return inodes;
}

void Holdings::Describe(SessionId session, v1::WhoReply::Session& reply) const {
  reply.set_opens(opens.CountOf(session));
  reply.set_tokens(tokens.CountOf(session));
}

}  // namespace reel::mdc
