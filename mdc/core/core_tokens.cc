// Those who wait for tokens, and the recalls of what they wait for.
#include <algorithm>
#include <deque>
#include <utility>

#include "mdc/core/core_impl.h"

namespace reel::mdc {

void CoreImpl::Park(const PendingRef& op, InodeNumber inode) {
  if (op->unfinished || op->fetching) return;  // it stands elsewhere
  if (op->gives_up && !WaitsForOwnLockToken(*op)) return GiveUpLockWait(*op);
  if (op->waits_for_lock_token) {
    lock_waits_.AddForToken(inode, op);
    return;
  }
  if (op->request.has_set_lock()) {
    lock_waits_.AddForLock(op);
    return;
  }
  op->queued_on = inode;
  // Whoever changes extents has the token that those in the queue may wait for, and has to come to
  // an end before it gives it back.
  std::deque<PendingRef>& queue = parked_[inode];
  op->waits_for_removal ? queue.push_front(op) : queue.push_back(op);
}

void CoreImpl::RunParked(InodeNumber inode) {
  for (;;) {
    const auto queue = parked_.find(inode);
    if (queue == parked_.end()) return;
    if (queue->second.empty()) {
      parked_.erase(queue);
      return;
    }
    const PendingRef op = queue->second.front();
    if (!op->cancelled) {
      if (op->fetching || !health_.ok()) return;
      const Outcome outcome = Run(op, /*from_queue=*/true);
      if (outcome == Outcome::kMissed) return;
      if (outcome == Outcome::kBlocked && op->blocked_on == inode && !op->waits_for_lock_token &&
          !op->unfinished) {
        return;
      }
      op->queued_on = InodeNumber(0);
      if (outcome == Outcome::kBlocked) Park(op, op->blocked_on);
    }
    // Found again: running it may have changed the map, and put another one first.
    std::deque<PendingRef>& left = parked_[inode];
    left.erase(std::find(left.begin(), left.end(), op));
  }
}

// A request that would raise a token waits behind those that wait already, so that a writer is not
// starved by a stream of readers; one under recall gets nothing new before it has answered.
bool CoreImpl::StandsInLine(const Pending& op) const {
  const v1::LayoutGet& get = op.request.layout_get();
  const auto span = ParseTokenSpan(get.token_first_block(), get.token_length_blocks());
  const InodeNumber inode(get.inode());
  return span.ok() && parked_.contains(inode) &&
         tokens_.Held(op.session, inode, *span) < get.mode();
}

bool CoreImpl::OthersWait(const Pending& op) const {
  if (!op.request.has_layout_get()) return false;
  const InodeNumber inode(op.request.layout_get().inode());
  const auto queue = parked_.find(inode);
  return queue != parked_.end() && queue->second.size() > (op.queued_on == inode ? 1 : 0);
}

void CoreImpl::SendRecalls(const std::vector<Recall>& recalls) {
  NoteRecalls(recalls, RecallClock::Kind::kData);
  for (const Recall& recall : recalls) {
    ++counters_.recalls;
    const Session* session = sessions_.Find(recall.session);
    // Without a stream it goes out when the session resumes, or is settled by the eviction.
    if (session == nullptr || session->stream == kNoStream) continue;
    v1::Callback callback;
    callback.mutable_recall_token()->set_inode(recall.inode.value());
    callback.mutable_recall_token()->set_mode(recall.mode);
    callback.mutable_recall_token()->set_first_block(recall.span.first.value());
    callback.mutable_recall_token()->set_length_blocks(LengthForMessage(recall.span));
    outputs_.Emit(session->stream, std::move(callback), Sequence(),
                  OutputQueue::TokenOf(recall.session, recall.inode));
  }
}

}  // namespace reel::mdc
