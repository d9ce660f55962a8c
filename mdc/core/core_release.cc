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
  fencing_.orders.Remove(id);
  work_.resends.Drop(id);
  work_.bandwidth.Forget(id);
  sessions_.Remove(id);
  work_.releases.Add(id);
  ReleaseSome();
  if (grace_.Leave(id)) OnGraceOver();
}

void CoreImpl::ReleaseClaims(Session& session) {
  work_.releases.Add(session.id);
  ReleaseSome();
}

void CoreImpl::ReleaseSome() {
  while (const std::optional<SessionId> id = work_.releases.First()) {
    if (!ReleaseHoldings(*id)) break;
    Session* const session = sessions_.Find(*id);
    if (session == nullptr && !ReleaseReservedInodes(*id)) break;
    work_.releases.FirstIsDone();
    if (session == nullptr || !session->hello) continue;
    const v1::Request hello = *std::exchange(session->hello, std::nullopt);
    if (session->phase == Session::Phase::kMustReclaim) AnswerHello(*session, hello, Sequence());
  }
  if (!work_.releases.empty()) outbox_.sync_wish.Ask();  // the next step follows it
}

bool CoreImpl::ReleaseHoldings(SessionId session) {
  const Holdings::Dropped dropped = holdings_.Drop(session, work_.releases);
  for (const InodeNumber inode : dropped.data) {
    parked_.WakeIfAny(inode);
    work_.orphans.Queue(inode);
  }
  for (const InodeNumber inode : dropped.attributes) parked_.WakeIfAny(inode);
  for (const InodeNumber inode : dropped.closed) work_.orphans.Queue(inode);
  if (!dropped.all) return false;
  allocator_->DropWindows(session);
  return true;
}

bool CoreImpl::ReleaseReservedInodes(SessionId session) {
  const std::vector<mdc::Run> runs =
      delegations_.reserved().DropSome(session, work_.releases.room());
  work_.releases.Spend(runs.size());
  for (const mdc::Run& run : runs) allocator_->Unreserve(run);
  return work_.releases.room() > 0;
}

// ---- recalls ----------------------------------------------------------------------------------

void CoreImpl::ResendRecalls(Resends::Turn turn) {
  if (work_.resends.empty()) return;
  work_.resends.DropIf([this](SessionId session) {
    return sessions_.Find(session)->phase == Session::Phase::kEnding;
  });
  work_.resends.BeginTurn(turn, kStepHoldings);
  while (const auto slice = work_.resends.Next()) Resend(*slice);
  if (work_.resends.used_up()) outbox_.sync_wish.Ask();
}

void CoreImpl::Resend(const Resends::Slice& slice) {
  const auto found = [&](const auto& recalls) {
    work_.resends.Found(slice, recalls.size(),
                        recalls.empty() ? InodeNumber() : recalls.back().inode);
  };
  switch (slice.kind) {
    case Resends::Kind::kData: {
      const auto recalls = holdings_.tokens.PendingRecalls(slice.session, slice.from, slice.most);
      found(recalls);
      return SendRecalls(recalls);
    }
    case Resends::Kind::kAttributes: {
      const auto recalls =
          holdings_.attr_tokens.PendingRecalls(slice.session, slice.from, slice.most);
      found(recalls);
      return SendAttrRecalls(recalls);
    }
    case Resends::Kind::kLocks: {
      const auto tokens =
          holdings_.lock_tokens.RecalledLocks(slice.session, slice.from, slice.most);
      found(tokens);
      for (const LockToken& token : tokens) SendLockRecall(token);
      return;
    }
  }
}

}  // namespace reel::mdc
