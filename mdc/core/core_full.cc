// A metadata store with little room left: what waits for it, and what people are told.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "proto/request_kind.h"

namespace reel::mdc {
namespace {

// A compaction takes less of a small store: clients are told of commits that have waited for so
// long, and acknowledge no more writes that need one.
constexpr std::uint64_t kLongHeldMs = 5'000;

std::string Counted(std::size_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

void CoreImpl::OnStoreSpace(StoreSpace space, bool commits_wait) {
  store_space_ = space;
  commits_wait_ = commits_wait;
  if (space != StoreSpace::kFull) {
    full_since_ms_.reset();
  } else if (!full_since_ms_) {
    full_since_ms_ = clock_.NowMs();
  }
  std::vector<PendingRef> due;
  for (PendingRef& op : std::exchange(held_commits_, {})) {
    const bool waits = commits_wait && !orphans_.Contains(*KindOf(op->request).token_inode);
    (waits ? held_commits_ : due).push_back(std::move(op));
  }
  Resume(due);
  if (space != StoreSpace::kGrowing && !held_back_.empty()) Resume(std::exchange(held_back_, {}));
}

// What is removed is let go: its blocks come back when its sessions have returned their tokens. No
// return passes a commit of its session.
bool CoreImpl::WaitsForStore(const Pending& op) const {
  if (!commits_wait_ || op.reap != InodeNumber(0)) return false;
  const bool commits = KindOf(op.request).store == StoreUse::kCommits;
  if (!commits && !op.request.has_layout_return()) return false;
  const std::optional<InodeNumber> inode = KindOf(op.request).token_inode;
  return !orphans_.Contains(*inode) && (commits || HoldsCommitOf(op.session, inode));
}

bool CoreImpl::HoldsCommitOf(SessionId session, std::optional<InodeNumber> inode) const {
  return std::ranges::any_of(held_commits_, [&](const PendingRef& op) {
    return op->session == session && !op->cancelled &&
           (!inode || KindOf(op->request).token_inode == inode);
  });
}

void CoreImpl::HoldCommit(const PendingRef& op) {
  // Not in its lane: the session may delete meanwhile.
  op->fetching = true;
  op->blocked_on = InodeNumber(0);
  if (op->held_since_ms == 0) op->held_since_ms = clock_.NowMs();
  held_commits_.push_back(op);
}

std::uint64_t CoreImpl::LongestHeldMs() const {
  std::uint64_t since_ms = clock_.NowMs();
  for (const PendingRef& op : held_commits_) {
    if (!op->cancelled) since_ms = std::min(since_ms, op->held_since_ms);
  }
  return clock_.NowMs() - since_ms;
}

void CoreImpl::AnswerRenewal(const Session& session, const v1::Request& request) {
  v1::Reply reply;
  reply.set_commits_wait(LongestHeldMs() >= kLongHeldMs);
  Answer(session, request, std::move(reply), Sequence());
}

void CoreImpl::DescribeFullStore(v1::ShowReply& reply) const {
  if (!full_since_ms_) return;
  const std::uint64_t full_ms = clock_.NowMs() - *full_since_ms_;
  std::string alarm = absl::StrCat("the metadata store has been nearly full for ", full_ms / 1000,
                                   " s, what needs room in it ends in ENOSPC");
  absl::btree_set<SessionId> sessions;
  std::size_t commits = 0;
  for (const PendingRef& op : held_commits_) {
    if (op->cancelled || KindOf(op->request).store != StoreUse::kCommits) continue;
    sessions.insert(op->session);
    ++commits;
  }
  if (commits > 0) {
    absl::StrAppend(
        &alarm, "; ", Counted(commits, "commit"), " of ", Counted(sessions.size(), "session"),
        ", and who fsyncs there, wait for it, for ", LongestHeldMs() / 1000, " s by now");
  }
  reply.add_alarms(absl::StrCat(alarm, "; remove files, or give its pool more room"));
}

}  // namespace reel::mdc
