#include "client/recaller.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// Page reads that come in while pages are invalidated may fill them again; then it is done again.
// When they never pause, the last time is after the return: the kernel shows old bytes for that
// moment.
constexpr int kMaxRounds = 16;

using Recall = FileState::Recall;

}  // namespace

void Recaller::Recall(FileState& f, const FileState::Recalled& recalled) {
  if (f.recall == Recall::kReturning) {
    if (!f.next_recall) f.next_recall = recalled;
    f.next_recall->Add(recalled);
    return;
  }
  if (f.recall != Recall::kNone) {
    FileState::Recalled both = f.recalled;
    both.Add(recalled);
    if (both != f.recalled) f.BeginRecall(both);
    return;
  }
  f.recall = Recall::kDraining;
  context_.recalls.Begin(f.inode);
  f.BeginRecall(recalled);
  const std::uint64_t cycle = ++f.recall_cycle;
  f.changed.NotifyAll();
  pool_.Run([this, file = f.shared_from_this(), cycle] { Drain(file, cycle); });
  // The invalidation would wait for it.
  if (f.PageWaitsForToken()) Bypass(f);
}

void Recaller::Bypass(FileState& f) {
  if (f.recall != Recall::kDraining) return;
  f.recall = Recall::kClosed;
  const std::uint64_t cycle = f.recall_cycle;
  {
    MutexLock lock(mutex_);
    bypassed_.emplace(f.inode, cycle);
  }
  pool_.Lend();
  bypasses_.Run([this, file = f.shared_from_this(), cycle] { Return(file, cycle); });
}

// The kernel writes dirty pages back before it drops them.
void Recaller::Invalidate(FileState& f) {
  ++f.stale_pages;
  stale_.Run([this, file = f.shared_from_this()] {
    context_.invalidate_pages(file->inode);
    MutexLock lock(file->mutex);
    --file->stale_pages;
  });
}

void Recaller::Drain(const FileRef& file, std::uint64_t cycle) {
  InvalidateAndReturn(file, cycle);
  MutexLock lock(mutex_);
  if (bypassed_.erase({file->inode, cycle}) > 0) pool_.TakeBack();
}

void Recaller::InvalidateAndReturn(const FileRef& file, std::uint64_t cycle) {
  FileState& f = *file;
  bool stale_pages = false;
  for (int round = 1;; ++round) {
    std::uint64_t page_fills = 0;
    {
      MutexLock lock(f.mutex);
      // Also when it is overtaken already: the pages are old all the same.
      const bool overtaken = f.recall_cycle != cycle || f.recall != Recall::kDraining;
      if (overtaken && round > 1) return;
      page_fills = f.page_fills;
    }
    context_.invalidate_pages(f.inode);
    MutexLock lock(f.mutex);
    if (f.recall_cycle != cycle || f.recall != Recall::kDraining) return;
    stale_pages = f.page_fills != page_fills;
    if (stale_pages && round < kMaxRounds) continue;
    f.recall = Recall::kClosed;
    break;
  }
  Return(file, cycle);
  if (stale_pages) context_.invalidate_pages(f.inode);
}

void Recaller::Return(const FileRef& file, std::uint64_t cycle) {
  FileState& f = *file;
  bool release_tail = false;
  {
    MutexLock lock(f.mutex);
    while (f.recall_cycle == cycle && !f.drained()) {
      if (!context_.Wait(f, nullptr).ok() && context_.stopping) return;
    }
    if (f.recall_cycle != cycle) return;
    f.recall = Recall::kReturning;
    // Where nobody relied on it, its place by now counts.
    if (!f.passed) f.yielded = f.YieldFor(f.recalled.span);
    f.recalled.span = f.yielded;
    release_tail = f.recalled.mode == v1::TOKEN_NONE && f.recalled.span.Contains(f.EndSpan());
  }
  if (release_tail) committer_.ReleaseTail(file, cycle);
  std::uint64_t session = 0;
  auto request = Yield(file, cycle, session);
  if (!request) return;
  context_.session->Start(
      *std::move(request),
      [this, file, cycle](const absl::StatusOr<v1::Reply>& reply) {
        Returned(file, cycle, reply.status());
      },
      session);
}

// It goes first: without the token it would be refused. Once: what the LUNs did not take stays
// dirty.
bool Recaller::Commit(FileState& f, std::uint64_t cycle) {
  const FileRef file = f.shared_from_this();
  bool clean = false;
  while (f.recall_cycle == cycle && (f.commit_running || (!clean && f.DirtyIn(f.recalled.span)))) {
    if (context_.stopping) return false;
    if (f.commit_running) {
      (void)context_.Wait(f, nullptr);
      continue;
    }
    f.mutex.Unlock();
    clean = committer_.Clean(file, nullptr).ok();
    f.mutex.Lock();
  }
  return f.recall_cycle == cycle;
}

std::optional<v1::Request> Recaller::Yield(const FileRef& file, std::uint64_t cycle,
                                           std::uint64_t& session) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  if (!Commit(f, cycle)) return std::nullopt;
  // Lowered when it is sent, not when it is answered: a new controller hears of the lower one.
  const FileState::Recalled back = f.recalled;
  f.LowerToken(back.span, back.mode);
  if (f.token.empty()) context_.RegisterOpens(f);
  session = f.session;
  v1::Request request;
  v1::LayoutReturn& message = *request.mutable_layout_return();
  message.set_inode(f.inode);
  message.set_mode(back.mode);
  message.set_first_block(back.span.first.value());
  message.set_length_blocks(LengthForMessage(back.span));
  return request;
}

void Recaller::Returned(const FileRef& file, std::uint64_t cycle, const absl::Status& status) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  if (f.recall_cycle != cycle) return;
  if (!status.ok() && ErrnoOf(status) != ESHUTDOWN && ErrnoOf(status) != ESTALE) {
    spdlog::warn("inode {}: the controller refused the return of its token: {}", f.inode,
                 std::string(status.message()));
  }
  f.recall = Recall::kNone;
  context_.recalls.End(f.inode);
  const FileState::Recalled answered = f.recalled;
  if (const auto next = std::exchange(f.next_recall, std::nullopt)) {
    if (!answered.span.Contains(next->span) || answered.mode > next->mode) Recall(f, *next);
  }
  f.changed.NotifyAll();
}

}  // namespace reel::client
