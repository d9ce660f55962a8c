// What clients claim again in a new epoch, and the end of the time for it.
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "proto/request_kind.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// A million opens, tokens and locks each.
constexpr std::uint64_t kMaxReclaimBytes = std::uint64_t{256} << 20;

}  // namespace

void CoreImpl::OnReclaim(Session& session, const v1::Request& request) {
  v1::Reply reply;
  if (session.phase != Session::Phase::kMustReclaim) {
    reply.set_error(EINVAL);
    reply.set_message("there is nothing to reclaim in this epoch");
    Answer(session, request, std::move(reply), Sequence());
    return;
  }
  session.reclaim.bytes += request.reclaim().ByteSizeLong();
  if (session.reclaim.bytes > kMaxReclaimBytes) {
    Evict(session, "it claims more than any client holds");
    return;
  }
  if (const std::string wrong = TakeClaims(session, request.reclaim()); !wrong.empty()) {
    Evict(session, wrong);
    return;
  }
  Answer(session, request, std::move(reply), Sequence());
  session.reclaim.done = request.reclaim().done();
  EndReclaim(session);
}

// The bounds are those of sessions that are served.
std::string CoreImpl::TakeClaims(Session& session, const v1::Reclaim& claims) {
  constexpr const char* kTooMuch = "it claims more than any client holds";
  const SessionId id = session.id;
  const bool may_write = session.exported.access == Export::Access::kReadWrite;
  for (const std::uint64_t open : claims.opens()) {
    holdings_.opens.Open(id, InodeNumber(open));
    if (holdings_.opens.CountOf(id) > kMaxOpens) return kTooMuch;
  }
  for (const v1::HeldToken& token : claims.tokens()) {
    const InodeNumber inode(token.inode());
    const bool exclusive = token.mode() == v1::TOKEN_EXCLUSIVE;
    const auto span = ParseTokenSpan(token.first_block(), token.length_blocks());
    if ((token.mode() != v1::TOKEN_SHARED && !exclusive) || !span.ok()) continue;
    if (exclusive && !may_write) return "it was writing, and its export has become read-only";
    if (!holdings_.tokens.OthersAtMost(id, inode, exclusive ? v1::TOKEN_NONE : v1::TOKEN_SHARED,
                                       *span)) {
      return absl::StrCat("it claims a token of inode ", inode.value(),
                          " that another session holds");
    }
    holdings_.tokens.Grant(id, inode, token.mode(), *span);
    if (exclusive && work_.quotas.counts()) work_.quotas.ahead().Note(inode, std::nullopt);
    if (holdings_.tokens.CountOf(id) > 2 * kMaxTokenRanges) return kTooMuch;
  }
  for (const v1::FileLock& claim : claims.locks()) {
    const absl::StatusOr<FileLock> lock = FromProto(claim, id);
    if (!lock.ok() || lock->type == v1::LOCK_NONE) continue;
    v1::Request set;
    *set.mutable_set_lock()->mutable_lock() = claim;
    if ((!may_write && Is(set, kChangesVolume)) || !MayLock(id, claim)) {
      return absl::StrCat("it claims a lock of inode ", lock->inode.value(),
                          " that its export does not allow");
    }
    if (holdings_.locks.Conflict(*lock)) {
      return absl::StrCat("it claims a lock of inode ", lock->inode.value(),
                          " that stands in another's way");
    }
    holdings_.locks.Set(*lock);
    if (holdings_.locks.CountOf(id) > 2 * kMaxLocks) return kTooMuch;
  }
  return {};
}

void CoreImpl::OnGraceOver() {
  spdlog::info("volume {}: serving in epoch {}", descriptor_.name, term_.epoch.value());
  term_.serving_ms = clock_.NowMs();
  allocator_->SetGrace(false);
  ApplyClosed();
  work_.orphans.QueueAll();
  KeepForRepetitions();
  for (auto& [id, session] : sessions_.all()) RunLane(*session);
}

// A create that was not answered is repeated behind the claims, and its open is made anew only then
// (Repeat): a removal that has waited for this moment would be quicker. (So might be an operation
// that finds no space.)
void CoreImpl::KeepForRepetitions() {
  std::vector<InodeNumber> made;
  for (const auto& [id, session] : sessions_.all()) {
    for (const Slot& slot : session->slots) {
      v1::Reply reply;
      if (!slot.resumed || slot.reply.empty() || !reply.ParseFromString(slot.reply)) continue;
      const v1::Attr& attr = reply.entry().attr();
      if (reply.has_entry() && S_ISREG(attr.mode())) made.push_back(InodeNumber(attr.inode()));
    }
  }
  KeepForLateOpens(made, /*promised=*/true);
}

}  // namespace reel::mdc
