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
  unfinished_.Add(op);
  sync_wish_.Ask();  // the next step follows it
}

void CoreImpl::RunUnfinished() {
  if (unfinished_.empty() || !health_.ok()) return;
  const std::vector<PendingRef> turn = unfinished_.TakeTurn();
  if (!unfinished_.empty()) sync_wish_.Ask();
  Resume(turn);
}

absl::Status CoreImpl::AwaitRemoval(InodeNumber inode) {
  if (!orphans_.Contains(inode))
    return DamagedRecord("a truncation that nobody goes on with", inode);
  ++counters_.blocked;
  // Before those for whom nobody waits.
  orphans_.Queue(inode, OrphanQueue::Place::kFirst);
  sync_wish_.Ask();
  return absl::OkStatus();
}

}  // namespace reel::mdc
