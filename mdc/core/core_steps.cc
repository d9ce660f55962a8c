// Operations that take more than one step (mdc/base/progress.h): each step is a commit of its own,
// and between two of them everybody else's operations run.
#include "mdc/core/core_impl.h"
#include "mdc/ops/inode.h"

namespace reel::mdc {

void CoreImpl::CommitStep(const PendingRef& op, OpContext& ctx) {
  const WriteBatch batch = ctx.txn.TakeBatch();
  Commit(ctx, batch, Haste::kNow);
  op->progress = ctx.progress;
  op->misses = 0;
  op->blocked_on = InodeNumber(0);
  work_.unfinished.Add(op);
  outbox_.sync_wish.Ask();  // the next step follows it
}

void CoreImpl::RunUnfinished() {
  if (work_.unfinished.empty() || !health_.ok()) return;
  const std::vector<PendingRef> turn = work_.unfinished.TakeTurn();
  if (!work_.unfinished.empty()) outbox_.sync_wish.Ask();
  Resume(turn);
}

absl::Status CoreImpl::AwaitRemoval(InodeNumber inode) {
  if (!work_.orphans.Contains(inode)) {
    return DamagedRecord("a truncation that nobody goes on with", inode);
  }
  ++counters_.blocked;
  // Before those for whom nobody waits.
  work_.orphans.Queue(inode, OrphanQueue::Place::kFirst);
  outbox_.sync_wish.Ask();
  return absl::OkStatus();
}

}  // namespace reel::mdc
