// Orphans: how their space comes back, and who waits for it.
#include <algorithm>
#include <memory>
#include <utility>

#include "mdc/core_impl.h"
#include "mdc/ops/orphans.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// Steps of removal per tick and per sync: enough to keep up with any client, few enough that nobody
// waits long behind them.
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
void CoreImpl::KeepForLateOpens(const std::vector<InodeNumber>& removed) {
  for (const InodeNumber inode : removed) {
    opens_.Open(kNobody, inode);
    leaving_.push_back({clock_.NowMs() + kLateOpenMs, inode});
  }
}

void CoreImpl::EndLateOpens(std::uint64_t now_ms) {
  for (; !leaving_.empty() && leaving_.front().until_ms <= now_ms; leaving_.pop_front()) {
    if (opens_.Close(kNobody, leaving_.front().inode)) QueueReap(leaving_.front().inode);
  }
}

void CoreImpl::Reap() {
  if (InGrace()) return;
  for (std::uint32_t step = 0; step < kReapSteps && !reap_queue_.empty() && health_.ok(); ++step) {
    auto op = std::make_shared<Pending>();
    op->reap = reap_queue_.front();
    reap_queue_.pop_front();
    reap_queued_.erase(op->reap);
    if (opens_.IsOpen(op->reap)) continue;
    ++reaps_;
    Advance(op);
  }
  EndWaitsForSpace();
}

void CoreImpl::FinishReap(InodeNumber inode, OpContext& ctx, const absl::StatusOr<bool>& done) {
  --reaps_;
  if (!done.ok()) {
    allocator_->Abandon();
    orphans_.erase(inode);
    spdlog::error("volume {}: inode {} cannot be removed: {}", descriptor_.name, inode.value(),
                  done.status().ToString());
    return;
  }
  for (const InodeNumber gone : ctx.txn.DeletedInodes()) {
    // Whoever has looked at it since it lost its name still answers for it.
    SendAttrRecalls(attr_tokens_.RecallOthers(SessionId(0), gone, v1::TOKEN_NONE));
    attr_tokens_.Forget(gone);
    woken_.insert(gone);
  }
  last_reap_ = std::max(last_reap_, Commit(ctx, ctx.txn.TakeBatch(), Haste::kWhenAsked));
  if (!*done) {
    QueueReap(inode);
  } else if (!opens_.IsOpen(inode)) {
    orphans_.erase(inode);
    ++counters_.reaped;
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
