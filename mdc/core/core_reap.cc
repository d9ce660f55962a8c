// Orphans: how their space comes back, and who waits for it.
#include <algorithm>
#include <memory>
#include <utility>

#include "mdc/core/core_impl.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// Steps of removal per tick and per sync (of which all together change about as many records as one
// may): enough to keep up with any client, few enough that nobody waits long behind them.
constexpr std::uint32_t kReapSteps = 64;
// For so long an orphan that others knew may still be opened by them; meanwhile nobody has it open.
constexpr std::uint64_t kLateOpenMs = 300;
constexpr SessionId kNobody(0);
// For so long, at most, an operation waits for space that is about to come back. (A removal itself
// may wait for a session that does not answer.)
constexpr std::uint64_t kSpaceWaitMs = 1000;
// They stand in a queue as those do who wait for an inode's tokens.
constexpr InodeNumber kForSpace(UINT64_MAX);

}  // namespace

void CoreImpl::QueueReap(InodeNumber inode) {
  if (reap_queued_.insert(inode).second) reap_queue_.push_back(inode);
}

// They were removed under the eyes of another host, which may have looked the name up and be about
// to open what it found: as on one machine, it gets that. (The kernel tries once more after ESTALE,
// which is not enough where a file is replaced again and again.)
void CoreImpl::KeepForLateOpens(const std::vector<InodeNumber>& inodes) {
  for (const InodeNumber inode : inodes) {
    opens_.Open(kNobody, inode);
    leaving_.push_back({clock_.NowMs() + kLateOpenMs, inode});
  }
}

void CoreImpl::EndLateOpens(std::uint64_t now_ms) {
  for (; !leaving_.empty() && leaving_.front().until_ms <= now_ms; leaving_.pop_front()) {
    const InodeNumber inode = leaving_.front().inode;
    if (opens_.Close(kNobody, inode) && orphans_.contains(inode)) QueueReap(inode);
  }
}

void CoreImpl::Reap() {
  if (InGrace()) return;
  reap_changes_ = 0;
  for (std::uint32_t step = 0; step < kReapSteps && reap_changes_ < options_.steps.reaped &&
                               !reap_queue_.empty() && health_.ok();
       ++step) {
    auto op = std::make_shared<Pending>();
    op->reap = reap_queue_.front();
    reap_queue_.pop_front();
    reap_queued_.erase(op->reap);
    ++reaps_;
    Advance(op);
  }
  // The next ones need not wait for a tick where somebody waits for them.
  if (!reap_queue_.empty() &&
      (parked_.contains(reap_queue_.front()) || parked_.contains(kForSpace))) {
    wants_sync_ = true;
  }
  EndWaitsForSpace();
}

void CoreImpl::FinishReap(InodeNumber inode, OpContext& ctx, const absl::StatusOr<Reaped>& reaped) {
  --reaps_;
  if (!reaped.ok()) {
    allocator_->Abandon();
    orphans_.erase(inode);
    woken_.insert(inode);
    spdlog::error("volume {}: inode {} cannot be removed: {}", descriptor_.name, inode.value(),
                  reaped.status().ToString());
    return;
  }
  for (const InodeNumber gone : ctx.txn.DeletedInodes()) {
    // Whoever has looked at it since it lost its name still answers for it.
    SendAttrRecalls(attr_tokens_.RecallOthers(SessionId(0), gone, v1::TOKEN_NONE));
    attr_tokens_.Forget(gone);
    woken_.insert(gone);
  }
  // Who waited for the rest of a truncation waits for no more of a removal, which may itself have
  // to wait for the token that is given back after that.
  if (*reaped == Reaped::kMore) {
    const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
    if (record.ok() && (*record)->truncated_from() == 0) woken_.insert(inode);
  }
  const WriteBatch batch = ctx.txn.TakeBatch();
  reap_changes_ += batch.changes().size();
  last_reap_ = std::max(last_reap_, Commit(ctx, batch, Haste::kWhenAsked));
  switch (*reaped) {
    case Reaped::kMore:
      // First again where somebody waits for it.
      if (!parked_.contains(inode)) {
        QueueReap(inode);
      } else if (reap_queued_.insert(inode).second) {
        reap_queue_.push_front(inode);
      }
      break;
    case Reaped::kOpen:
      woken_.insert(inode);
      break;
    case Reaped::kDone:
      orphans_.erase(inode);
      woken_.insert(inode);
      ++counters_.reaped;
      break;
  }
}

bool CoreImpl::SpaceComesBack() const {
  return !reap_queue_.empty() || reaps_ > 0 || last_reap_ > outputs_.durable();
}

bool CoreImpl::AwaitSpace(const PendingRef& op) {
  if (InGrace()) return false;
  const std::uint64_t now_ms = clock_.NowMs();
  if (op->space_until_ms == 0) op->space_until_ms = now_ms + kSpaceWaitMs;
  EndLateOpens(UINT64_MAX);
  if (!SpaceComesBack() || now_ms >= op->space_until_ms) return false;
  allocator_->Abandon();
  wants_sync_ = wants_sync_ || may_sync_;
  op->blocked_on = kForSpace;
  return true;
}

void CoreImpl::EndWaitsForSpace() {
  const auto queue = parked_.find(kForSpace);
  if (queue == parked_.end()) return;
  if (!SpaceComesBack() || queue->second.front()->space_until_ms <= clock_.NowMs()) {
    woken_.insert(kForSpace);
  }
}

}  // namespace reel::mdc
