// Those who wait for tokens, and the recalls of what they wait for.
#include <algorithm>
#include <utility>

#include "mdc/core/core_impl.h"

namespace reel::mdc {

void CoreImpl::Park(const PendingRef& op, InodeNumber inode) {
  if (op->unfinished || op->fetching) return;  // it stands elsewhere
  if (op->gives_up && !WaitsForOwnLockToken(*op)) return GiveUpLockWait(*op);
  if (op->waits_for_lock_token) {
    holdings_.lock_waits.AddForToken(inode, op);
    return;
  }
  if (op->request.has_set_lock()) {
    holdings_.lock_waits.AddForLock(op);
    return;
  }
  // Whoever changes extents has the token that those in line may wait for, and has to come to an
  // end before it gives it back.
  using Place = ParkedOperations::Place;
  parked_.Add(inode, op, op->waits_for_removal ? Place::kFirst : Place::kLast);
}

void CoreImpl::RunParked(InodeNumber inode) {
  while (const PendingRef op = parked_.First(inode)) {
    if (op->cancelled) {
      parked_.Remove(inode, op);
      continue;
    }
    if (op->fetching || !health_.ok()) return;
    const Outcome outcome = Run(op, /*from_queue=*/true);
    if (outcome == Outcome::kMissed) return;
    const bool blocked = outcome == Outcome::kBlocked;
    if (blocked && op->blocked_on == inode && !op->waits_for_lock_token && !op->unfinished) return;
    parked_.Remove(inode, op);
    if (blocked) Park(op, op->blocked_on);
  }
}

// A request that would raise a token waits behind those that wait already, so that a writer is not
// starved by a stream of readers; one under recall gets nothing new before it has answered.
bool CoreImpl::WaitsInOrder(const Pending& op) const {
  const v1::LayoutGet& get = op.request.layout_get();
  const auto span = ParseTokenSpan(get.token_first_block(), get.token_length_blocks());
  const InodeNumber inode(get.inode());
  return span.ok() && parked_.Any(inode) &&
         holdings_.tokens.Held(op.session, inode, *span) < get.mode();
}

bool CoreImpl::OthersWait(const Pending& op) const {
  return op.request.has_layout_get() &&
         parked_.AnyBut(InodeNumber(op.request.layout_get().inode()), op);
}

void CoreImpl::SendRecalls(const std::vector<Recall>& recalls) {
  NoteRecalls(recalls, RecallClock::Kind::kData);
  for (const Recall& recall : recalls) {
    ++counters_.recalls;
    if (recall.session == kMover) {
      BreakMove(recall.inode);
      continue;
    }
    const Session* session = sessions_.Find(recall.session);
    // Without a stream it goes out when the session resumes, or is settled by the eviction.
    if (session == nullptr || session->stream == kNoStream) continue;
    v1::Callback callback;
    callback.mutable_recall_token()->set_inode(recall.inode.value());
    callback.mutable_recall_token()->set_mode(recall.mode);
    callback.mutable_recall_token()->set_first_block(recall.span.first.value());
    callback.mutable_recall_token()->set_length_blocks(LengthForMessage(recall.span));
    const OutputQueue::TokenOf token(recall.session, recall.inode);
    outbox_.queue.Emit(session->stream, std::move(callback), Sequence(), {&token, 1});
  }
}

}  // namespace reel::mdc
