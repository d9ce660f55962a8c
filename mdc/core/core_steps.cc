// Operations that take more than one step (mdc/base/progress.h): each step is a commit of its own,
// and between two of them everybody else's operations run.
#include <algorithm>

#include "mdc/core/core_impl.h"
#include "mdc/ops/inode.h"

namespace reel::mdc {
namespace {

// Steps with each tick and each sync.
constexpr std::size_t kSteps = 2;

}  // namespace

void CoreImpl::CommitStep(const PendingRef& op, OpContext& ctx) {
  const WriteBatch batch = ctx.txn.TakeBatch();
  Commit(ctx, batch, Haste::kNow);
  op->progress = ctx.progress;
  op->misses = 0;
  op->blocked_on = InodeNumber(0);
  op->unfinished = true;
  op->fetching = true;
  unfinished_.push_back(op);
  wants_sync_ = true;  // the next step follows it
}

void CoreImpl::RunUnfinished() {
  if (unfinished_.empty() || !health_.ok()) return;
  const std::size_t count = std::min(kSteps, unfinished_.size());
  const auto end = unfinished_.begin() + static_cast<std::ptrdiff_t>(count);
  const std::vector<PendingRef> due(unfinished_.begin(), end);
  unfinished_.erase(unfinished_.begin(), end);
  for (const PendingRef& op : due) op->unfinished = false;
  wants_sync_ = wants_sync_ || !unfinished_.empty();
  Resume(due);
}

absl::Status CoreImpl::AwaitRemoval(InodeNumber inode) {
  if (!orphans_.Contains(inode))
    return DamagedRecord("a truncation that nobody goes on with", inode);
  ++counters_.blocked;
  // Before those for whom nobody waits.
  orphans_.Queue(inode, OrphanQueue::Place::kFirst);
  wants_sync_ = true;
  return absl::OkStatus();
}

}  // namespace reel::mdc
