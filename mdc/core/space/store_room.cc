#include "mdc/core/space/store_room.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "proto/request_kind.h"

namespace reel::mdc {
namespace {

// A compaction takes less of a small store.
constexpr std::uint64_t kLongHeldMs = 5'000;

std::string Counted(std::size_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

void StoreRoom::Set(Space space, bool commits_wait, std::uint64_t now_ms) {
  space_ = space;
  commits_wait_ = commits_wait;
  if (space != Space::kFull) {
    full_since_ms_.reset();
  } else if (!full_since_ms_) {
    full_since_ms_ = now_ms;
  }
}

StoreRoom::Wait StoreRoom::WaitOf(const Pending& op, const Removed& removed) const {
  const bool grows = space_ == Space::kGrowing;
  if (!grows && !commits_wait_) return Wait::kNone;
  const RequestKind kind = KindOf(op.request);
  const bool stretches = kind.store == StoreUse::kStretches;
  if (grows && (kind.store == StoreUse::kGrows || (commits_wait_ && stretches))) {
    return Wait::kToGrow;
  }
  if (!commits_wait_ || op.reap != InodeNumber(0)) return Wait::kNone;
  const bool commits = kind.store == StoreUse::kCommits;
  if (!commits && !op.request.has_layout_return()) return Wait::kNone;
  if (removed.contains(*kind.token_inode)) return Wait::kNone;
  return commits || HoldsCommitOf(op.session, kind.token_inode) ? Wait::kToCommit : Wait::kNone;
}

void StoreRoom::Hold(const PendingRef& op, Wait wait, std::uint64_t now_ms) {
  op->fetching = true;
  if (wait == Wait::kToGrow) {
    growth_.push_back(op);
    return;
  }
  // Not in its lane: the session may delete meanwhile.
  op->blocked_on = InodeNumber(0);
  if (op->held_since_ms == 0) op->held_since_ms = now_ms;
  commits_.push_back(op);
}

std::vector<PendingRef> StoreRoom::TakeDueCommits(const Removed& removed) {
  std::vector<PendingRef> due;
  for (PendingRef& op : std::exchange(commits_, {})) {
    const bool waits = commits_wait_ && !removed.contains(*KindOf(op->request).token_inode);
    (waits ? commits_ : due).push_back(std::move(op));
  }
  return due;
}

std::vector<PendingRef> StoreRoom::TakeDueGrowth() {
  if (space_ == Space::kGrowing) return {};
  return std::exchange(growth_, {});
}

void StoreRoom::CancelOf(SessionId session) {
  for (const std::vector<PendingRef>* held : {&commits_, &growth_}) {
    for (const PendingRef& op : *held) {
      if (op->session == session) op->cancelled = true;
    }
  }
}

bool StoreRoom::HoldsCommitOf(SessionId session, std::optional<InodeNumber> inode) const {
  return std::ranges::any_of(commits_, [&](const PendingRef& op) {
    return op->session == session && !op->cancelled &&
           (!inode || KindOf(op->request).token_inode == inode);
  });
}

bool StoreRoom::HoldsLong(std::uint64_t now_ms) const {
  return LongestHeldMs(now_ms) >= kLongHeldMs;
}

std::uint64_t StoreRoom::LongestHeldMs(std::uint64_t now_ms) const {
  std::uint64_t since_ms = now_ms;
  for (const PendingRef& op : commits_) {
    if (!op->cancelled) since_ms = std::min(since_ms, op->held_since_ms);
  }
  return now_ms - since_ms;
}

std::string StoreRoom::Alarm(std::uint64_t now_ms) const {
  if (!full_since_ms_) return {};
  std::string alarm =
      absl::StrCat("the metadata store has been nearly full for ",
                   (now_ms - *full_since_ms_) / 1000, " s, what needs room in it ends in ENOSPC");
  absl::btree_set<SessionId> sessions;
  std::size_t commits = 0;
  for (const PendingRef& op : commits_) {
    if (op->cancelled || KindOf(op->request).store != StoreUse::kCommits) continue;
    sessions.insert(op->session);
    ++commits;
  }
  if (commits > 0) {
    absl::StrAppend(
        &alarm, "; ", Counted(commits, "commit"), " of ", Counted(sessions.size(), "session"),
        ", and who fsyncs there, wait for it, for ", LongestHeldMs(now_ms) / 1000, " s by now");
  }
  return absl::StrCat(alarm, "; remove files, or give its pool more room");
}

}  // namespace reel::mdc
