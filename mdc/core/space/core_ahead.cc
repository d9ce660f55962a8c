// Who is refused at the limit of a quota waits, for a moment, while others give back what they have
// ahead of what they use: blocks of files that are written, and what is reserved for new files.
#include <algorithm>
#include <vector>

#include "mdc/core/core_impl.h"

namespace reel::mdc {
namespace {

// For so long, at most; less who asks for much: others may want what it has of that.
constexpr std::uint64_t kQuotaWaitMs = 1000;
constexpr std::uint64_t kMuchBytes = 256 * kKiB;  // then half as long
// They stand in a queue as those do who wait for an inode's tokens.
constexpr InodeNumber kForQuota(UINT64_MAX - 1);

}  // namespace

void CoreImpl::NoteAhead(const OpContext& ctx) {
  if (!ctx.effects.ahead || !work_.quotas.counts()) return;
  work_.quotas.ahead().Note(ctx.effects.ahead->first, ctx.effects.ahead->second);
}

void CoreImpl::RecallAhead(const std::vector<QuotaId>& ids, InodeNumber but) {
  for (const InodeNumber inode : work_.quotas.ahead().Take(ids, but)) {
    // (A shared token, too: whoever wrote under it before may know of the blocks still.)
    if (!holdings_.tokens.OthersAtMost(SessionId(0), inode, v1::TOKEN_NONE)) {
      SendRecalls(holdings_.tokens.RecallOthers(SessionId(0), inode, v1::TOKEN_NONE));
      work_.quotas.recalled().insert(inode);
    } else {
      FreeAhead(inode);
    }
  }
}

// A session may give a token back before it knows of blocks that it got under it.
void CoreImpl::FreeAhead(InodeNumber inode) {
  if (work_.orphans.Contains(inode)) return parked_.Wake(kForQuota);
  work_.orphans.Add(inode);
  work_.orphans.Queue(inode, OrphanQueue::Place::kFirst);
  work_.quotas.freeing().insert(inode);
}

bool CoreImpl::AwaitQuota(const PendingRef& op, const OpContext& ctx) {
  const std::vector<QuotaId>& lacking = ctx.effects.lacks_quota;
  if (grace_.on() || lacking.empty() || op->request.layout_get().ahead()) return false;
  const std::uint64_t now_ms = clock_.NowMs();
  const std::uint64_t asked =
      std::max(op->request.layout_get().length_bytes(), op->request.allocate().length_bytes());
  if (op->quota_until_ms == 0) {
    op->quota_until_ms = now_ms + kQuotaWaitMs / (1 + asked / kMuchBytes);
  }
  if (now_ms >= op->quota_until_ms) return false;
  // (Its own session holds it back while it waits.)
  const InodeNumber own(op->request.has_layout_get() ? op->request.layout_get().inode()
                        : op->request.has_allocate() ? op->request.allocate().inode()
                                                     : 0);
  const bool space = ctx.effects.lacks_space;
  if (space) RecallAhead(lacking, own);
  bool reserved = false;
  for (const auto& [session, directory] : delegations_.reserved().ChargedTo(lacking)) {
    if (session == op->session) continue;
    SendAttrRecalls(holdings_.attr_tokens.RecallOthers(SessionId(0), directory, v1::TOKEN_SHARED));
    reserved = true;
  }
  if ((!space || !work_.quotas.ahead_comes()) && !reserved) return false;
  allocator_->Abandon();
  outbox_.sync_wish.AskForAll();
  op->blocked_on = kForQuota;
  return true;
}

void CoreImpl::NoteAheadFreed(InodeNumber inode) {
  if (work_.quotas.freeing().erase(inode) > 0) parked_.Wake(kForQuota);
}

// Whoever waits looks again when something has come back.
void CoreImpl::EndWaitsForQuota() {
  std::vector<InodeNumber> answered;
  for (const InodeNumber inode : work_.quotas.recalled()) {
    if (!holdings_.tokens.AnyRecallPending(inode)) answered.push_back(inode);
  }
  for (const InodeNumber inode : answered) {
    work_.quotas.recalled().erase(inode);
    FreeAhead(inode);
  }
  const PendingRef first = parked_.First(kForQuota);
  if (first == nullptr) return;
  const bool over = clock_.NowMs() >= first->quota_until_ms;
  if (over || !work_.quotas.ahead_comes()) parked_.Wake(kForQuota);
}

}  // namespace reel::mdc
