// What a session that has ended held, and what one that has resumed is told again: both may be
// millions, so a turn of the core does a part, and everybody else is served between two turns.
//
// A session that is gone holds what has not been given away yet: whoever wants it waits as while
// the session was ending. That is as safe as before: it is off the LUNs, and its record is gone.
#include <algorithm>
#include <utility>
#include <vector>

#include "mdc/core/core_impl.h"

namespace reel::mdc {

void CoreImpl::Release(Session& session) {
  const SessionId id = session.id;
  const bool held_up = std::exchange(session.holds_up_grace, false);
  fencing_.erase(id);
  resends_.Drop(id);
  sessions_.Remove(id);
  releasing_.push_back(id);
  ReleaseSome();
  if (held_up && --grace_sessions_ == 0) OnGraceOver();
}

void CoreImpl::ReleaseClaims(Session& session) {
  // Once: a second round would take what it claims by then.
  if (std::ranges::find(releasing_, session.id) == releasing_.end()) {
    releasing_.push_back(session.id);
  }
  ReleaseSome();
}

void CoreImpl::ReleaseSome() {
  while (!releasing_.empty() && ReleaseHoldings(releasing_.front())) {
    const SessionId id = releasing_.front();
    Session* const session = sessions_.Find(id);
    if (session == nullptr && !ReleaseUnborn(id)) break;
    releasing_.pop_front();
    if (session == nullptr || !session->hello) continue;
    const v1::Request hello = *std::exchange(session->hello, std::nullopt);
    if (session->phase == Session::Phase::kMustReclaim) AnswerHello(*session, hello, Sequence());
  }
  wants_sync_ = wants_sync_ || !releasing_.empty();  // the next step follows it
}

void CoreImpl::SpendRelease(std::size_t count) {
  release_room_ -= std::min(release_room_, count);
  counters_.released += count;
}

bool CoreImpl::ReleaseHoldings(SessionId session) {
  // Only those for which somebody waits are looked at again.
  const auto wake = [&](InodeNumber inode) {
    if (parked_.contains(inode)) woken_.insert(inode);
  };
  const std::vector<InodeNumber> data = tokens_.Drop(session, release_room_);
  SpendRelease(data.size());
  for (const InodeNumber inode : data) {
    wake(inode);
    orphans_.Queue(inode);
  }
  const std::vector<InodeNumber> attributes = attr_tokens_.Drop(session, release_room_);
  SpendRelease(attributes.size());
  for (const InodeNumber inode : attributes) wake(inode);
  const std::uint64_t opens = opens_.CountOf(session);
  const std::vector<InodeNumber> closed = opens_.Drop(session, release_room_);
  SpendRelease(opens - opens_.CountOf(session));
  for (const InodeNumber inode : closed) orphans_.Queue(inode);
  const std::vector<InodeNumber> unlocked = locks_.Drop(session, release_room_);
  SpendRelease(unlocked.size());
  for (const InodeNumber inode : unlocked) lock_waits_.Wake(inode);
  const std::vector<InodeNumber> settled = lock_tokens_.Drop(session, release_room_);
  SpendRelease(settled.size());
  for (const InodeNumber inode : settled) lock_waits_.Wake(inode);
  if (release_room_ == 0) return false;
  allocator_->DropWindows(session);
  return true;
}

bool CoreImpl::ReleaseUnborn(SessionId session) {
  const std::vector<mdc::Run> runs = unborn_.DropSome(session, release_room_);
  SpendRelease(runs.size());
  for (const mdc::Run& run : runs) allocator_->Unreserve(run);
  return release_room_ > 0;
}

// ---- recalls ----------------------------------------------------------------------------------

void CoreImpl::ResendRecalls(Resends::Turn turn) {
  if (resends_.empty()) return;
  resends_.DropIf([this](SessionId session) {
    return sessions_.Find(session)->phase == Session::Phase::kEnding;
  });
  resends_.BeginTurn(turn, kStepHoldings);
  while (const auto slice = resends_.Next()) Resend(*slice);
  wants_sync_ = wants_sync_ || resends_.used_up();
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
      const auto tokens = lock_tokens_.Recalled(slice.session, slice.from, slice.most);
      found(tokens);
      for (const LockToken& token : tokens) SendLockRecall(token);
      return;
    }
  }
}

}  // namespace reel::mdc
