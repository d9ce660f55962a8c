// Orphans: how their space comes back, and who waits for it.
#include <memory>
#include <optional>
#include <utility>

#include "mdc/core/core_impl.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// Has open what may be opened late.
constexpr SessionId kNobody(0);
// For so long, at most, an operation waits for space that is about to come back. (A removal itself
// may wait for a session that does not answer.)
constexpr std::uint64_t kSpaceWaitMs = 1000;
// They stand in a queue as those do who wait for an inode's tokens.
constexpr InodeNumber kForSpace(UINT64_MAX);

}  // namespace

// They were removed under the eyes of another host, which may have looked the name up and be about
// to open what it found: as on one machine, it gets that. (The kernel tries once more after ESTALE,
// which is not enough where a file is replaced again and again.)
void CoreImpl::KeepForLateOpens(const std::vector<InodeNumber>& inodes, bool promised) {
  for (const InodeNumber inode : inodes) {
    holdings_.opens.Open(kNobody, inode);
    work_.orphans.BeginLateOpen(inode, clock_.NowMs(), promised);
  }
}

void CoreImpl::EndLateOpens(const std::vector<InodeNumber>& inodes) {
  for (const InodeNumber inode : inodes) {
    if (holdings_.opens.Close(kNobody, inode)) {
      work_.orphans.Queue(inode);
    } else if (holdings_.opens.IsOpen(inode)) {
      work_.orphans.SetOpen(inode);
    }
  }
}

void CoreImpl::Reap() {
  if (grace_.on()) return;
  work_.orphans.BeginTurn();
  while (health_.ok()) {
    const std::optional<InodeNumber> inode = work_.orphans.BeginStep();
    if (!inode) break;
    auto op = std::make_shared<Pending>();
    op->reap = *inode;
    Advance(op);
  }
  // The next ones need not wait for a tick where somebody waits for them.
  const std::optional<InodeNumber> next = work_.orphans.next();
  if (next && (parked_.Any(*next) || parked_.Any(kForSpace))) outbox_.sync_wish.Ask();
  EndWaitsForSpace();
  EndWaitsForQuota();
}

void CoreImpl::NoteOrphanSpace(OpContext& ctx, InodeNumber inode) {
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return;  // it was not in memory: what was known of it before holds
  if ((*record)->nlink() != 0) {
    return work_.orphans.SetSpace(inode, 0, OrphanQueue::Use::kNone);
  }
  // (What is kept for late opens alone comes back in a moment, or at once when it is needed.)
  const bool open = holdings_.opens.IsOpen(inode) && !(*record)->removing() &&
                    !holdings_.opens.IsOpenByAlone(kNobody, inode);
  work_.orphans.SetSpace(inode, (*record)->allocated_blocks(),
                         open ? OrphanQueue::Use::kOpen : OrphanQueue::Use::kRemoving);
}

void CoreImpl::FinishReap(InodeNumber inode, OpContext& ctx, const absl::StatusOr<Reaped>& reaped) {
  work_.orphans.EndStep();
  if (!reaped.ok() || *reaped != Reaped::kMore) NoteAheadFreed(inode);
  if (!reaped.ok()) {
    allocator_->Abandon();
    work_.orphans.Remove(inode);
    parked_.Wake(inode);
    spdlog::error("volume {}: inode {} cannot be removed: {}", descriptor_.name, inode.value(),
                  reaped.status().ToString());
    return;
  }
  for (const InodeNumber gone : ctx.txn.DeletedInodes()) {
    // Whoever has looked at it since it lost its name still answers for it.
    SendAttrRecalls(holdings_.attr_tokens.RecallOthers(SessionId(0), gone, v1::TOKEN_NONE));
    holdings_.attr_tokens.Forget(gone);
    parked_.Wake(gone);
  }
  // Who waited for the rest of a truncation waits for no more of a removal, which may itself have
  // to wait for the token that is given back after that.
  if (*reaped == Reaped::kMore) {
    const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
    if (record.ok() && (*record)->truncated_from() == 0) parked_.Wake(inode);
  }
  if (*reaped != Reaped::kDone) NoteOrphanSpace(ctx, inode);
  const WriteBatch batch = ctx.txn.TakeBatch();
  work_.orphans.Committed(batch.changes().size(), Commit(ctx, batch, Haste::kWhenAsked));
  switch (*reaped) {
    case Reaped::kMore:
      // First again where somebody waits for it.
      work_.orphans.Queue(
          inode, parked_.Any(inode) ? OrphanQueue::Place::kFirst : OrphanQueue::Place::kLast);
      break;
    case Reaped::kOpen:
      parked_.Wake(inode);
      break;
    case Reaped::kDone:
      work_.orphans.Remove(inode);
      parked_.Wake(inode);
      ++counters_.reaped;
      break;
  }
}

bool CoreImpl::SpaceComesBack() const {
  return work_.orphans.FreesSpace(outbox_.queue.durable()) || allocator_->more_comes();
}

bool CoreImpl::AwaitSpace(const PendingRef& op, bool of_quota) {
  if (grace_.on()) return false;
  const std::uint64_t now_ms = clock_.NowMs();
  if (op->space_until_ms == 0) op->space_until_ms = now_ms + kSpaceWaitMs;
  EndLateOpens(work_.orphans.EndLateOpensForSpace());
  // (A quota has it as soon as it is freed, durably or not.)
  const bool comes =
      of_quota ? work_.orphans.FreesSpace(outbox_.queue.durable()) : SpaceComesBack();
  const bool in_time = comes && now_ms < op->space_until_ms;
  if (!in_time && !(allocator_->lacks_waiting() && work_.dumps.AskForSpace(now_ms))) return false;
  allocator_->Abandon();
  outbox_.sync_wish.AskForAll();
  op->blocked_on = kForSpace;
  return true;
}

void CoreImpl::EndWaitsForSpace() {
  const PendingRef first = parked_.First(kForSpace);
  if (first == nullptr) return;
  if (work_.dumps.gives_space()) {
    if (work_.dumps.TakeCameBack(outbox_.queue.durable())) WakeForSpace();
  } else if (!SpaceComesBack() || first->space_until_ms <= clock_.NowMs()) {
    WakeForSpace();
  }
}

void CoreImpl::WakeForSpace() {
  parked_.Wake(kForSpace);
}

}  // namespace reel::mdc
