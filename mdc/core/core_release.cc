// What a session that has ended held, and what one that has resumed is told again: both may be
// millions, so a turn of the core does a part, and everybody else is served between two turns.
//
// A session that is gone holds what has not been given away yet: whoever wants it waits as while
// the session was ending. That is as safe as before: it is off the LUNs, and its record is gone.
#include <optional>
#include <utility>
#include <vector>

#include "mdc/core/core_impl.h"

namespace reel::mdc {

void CoreImpl::Release(Session& session) {
  const SessionId id = session.id;
  fences_.Remove(id);
  resends_.Drop(id);
  sessions_.Remove(id);
  releases_.Add(id);
  ReleaseSome();
  if (grace_.Leave(id)) OnGraceOver();
}

void CoreImpl::ReleaseClaims(Session& session) {
  releases_.Add(session.id);
  ReleaseSome();
}

void CoreImpl::ReleaseSome() {
  while (const std::optional<SessionId> id = releases_.First()) {
    if (!ReleaseHoldings(*id)) break;
    Session* const session = sessions_.Find(*id);
    if (session == nullptr && !ReleaseReservedInodes(*id)) break;
    releases_.FirstIsDone();
    if (session == nullptr || !session->hello) continue;
    const v1::Request hello = *std::exchange(session->hello, std::nullopt);
    if (session->phase == Session::Phase::kMustReclaim) AnswerHello(*session, hello, Sequence());
  }
  if (!releases_.empty()) sync_wish_.Ask();  // the next step follows it
}

bool CoreImpl::ReleaseHoldings(SessionId session) {
  const std::vector<InodeNumber> data = tokens_.Drop(session, releases_.room());
  releases_.Spend(data.size());
  for (const InodeNumber inode : data) {
    parked_.WakeIfAny(inode);
    orphans_.Queue(inode);
  }
  const std::vector<InodeNumber> attributes = attr_tokens_.Drop(session, releases_.room());
  releases_.Spend(attributes.size());
  for (const InodeNumber inode : attributes) parked_.WakeIfAny(inode);
  const std::uint64_t opens = opens_.CountOf(session);
  const std::vector<InodeNumber> closed = opens_.Drop(session, releases_.room());
  releases_.Spend(opens - opens_.CountOf(session));
  for (const InodeNumber inode : closed) orphans_.Queue(inode);
  const std::vector<InodeNumber> unlocked = locks_.Drop(session, releases_.room());
  releases_.Spend(unlocked.size());
  for (const InodeNumber inode : unlocked) lock_waits_.Wake(inode);
  const std::vector<InodeNumber> dropped = lock_tokens_.Drop(session, releases_.room());
  releases_.Spend(dropped.size());
  for (const InodeNumber inode : dropped) lock_waits_.Wake(inode);
  if (releases_.room() == 0) return false;
  allocator_->DropWindows(session);
  return true;
}

bool CoreImpl::ReleaseReservedInodes(SessionId session) {
  const std::vector<mdc::Run> runs = reserved_inodes_.DropSome(session, releases_.room());
  releases_.Spend(runs.size());
  for (const mdc::Run& run : runs) allocator_->Unreserve(run);
  return releases_.room() > 0;
}

// ---- recalls ----------------------------------------------------------------------------------

void CoreImpl::ResendRecalls(Resends::Turn turn) {
  if (resends_.empty()) return;
  resends_.DropIf([this](SessionId session) {
    return sessions_.Find(session)->phase == Session::Phase::kEnding;
  });
  resends_.BeginTurn(turn, kStepHoldings);
  while (const auto slice = resends_.Next()) Resend(*slice);
  if (resends_.used_up()) sync_wish_.Ask();
}

void CoreImpl::Resend(const Resends::Slice& slice) {
  const auto found = [&](const auto& recalls) {
    resends_.Found(slice, recalls.size(), recalls.empty() ? InodeNumber() : recalls.back().inode);
  };
  switch (slice.kind) {
    case Resends::Kind::kData: {
      const auto recalls = tokens_.PendingRecalls(slice.session, slice.from, slice.most);
      found(recalls);
      return SendRecalls(recalls);
    }
    case Resends::Kind::kAttributes: {
      const auto recalls = attr_tokens_.PendingRecalls(slice.session, slice.from, slice.most);
      found(recalls);
      return SendAttrRecalls(recalls);
    }
    case Resends::Kind::kLocks: {
      const auto tokens = lock_tokens_.RecalledLocks(slice.session, slice.from, slice.most);
      found(tokens);
      for (const LockToken& token : tokens) SendLockRecall(token);
      return;
    }
  }
}

}  // namespace reel::mdc
