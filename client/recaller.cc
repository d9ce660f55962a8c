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

void Recaller::Recall(FileState& f, v1::TokenMode mode) {
  if (f.recall == Recall::kReturning) {
    f.next_recall = std::min(mode, f.next_recall.value_or(f.recall_mode));
    return;
  }
  if (f.recall != Recall::kNone) {
    f.recall_mode = std::min(f.recall_mode, mode);
    return;
  }
  f.recall = Recall::kDraining;
  f.recall_mode = mode;
  const std::uint64_t cycle = ++f.recall_cycle;
  f.changed.NotifyAll();
  pool_.Run([this, file = f.shared_from_this(), cycle] { Drain(file, cycle); });
}

void Recaller::Bypass(FileState& f) {
  if (f.recall != Recall::kDraining) return;
  f.recall = Recall::kClosed;
  const std::uint64_t cycle = f.recall_cycle;
  pool_.Run([this, file = f.shared_from_this(), cycle] { Return(file, cycle); });
}

void Recaller::Invalidate(const FileRef& file) {
  pool_.Run([this, file] { context_.invalidate_pages(file->inode); });
}

void Recaller::Drain(const FileRef& file, std::uint64_t cycle) {
  FileState& f = *file;
  bool stale_pages = false;
  for (int round = 1;; ++round) {
    std::uint64_t page_reads = 0;
    {
      MutexLock lock(f.mutex);
      if (f.recall_cycle != cycle || f.recall != Recall::kDraining) return;
      page_reads = f.page_reads;
    }
    context_.invalidate_pages(f.inode);
    MutexLock lock(f.mutex);
    if (f.recall_cycle != cycle || f.recall != Recall::kDraining) return;
    stale_pages = f.page_reads != page_reads;
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
    while (f.recall_cycle == cycle && !f.idle()) {
      if (!context_.Wait(f, nullptr).ok() && context_.stopping) return;
    }
    if (f.recall_cycle != cycle) return;
    f.recall = Recall::kReturning;
    release_tail = f.recall_mode == v1::TOKEN_NONE;
  }
  if (release_tail) committer_.ReleaseTail(file);
  while (!committer_.Clean(file, nullptr).ok()) {
    if (context_.stopping) return;
  }
  v1::Request request;
  std::uint64_t session = 0;
  {
    MutexLock lock(f.mutex);
    if (f.recall_cycle != cycle) return;
    // Lowered when it is sent, not when it is answered: a new controller hears of the lower one.
    f.token = std::min(f.token, f.recall_mode);
    if (f.token == v1::TOKEN_NONE) f.extents.Clear();
    request.mutable_layout_return()->set_inode(f.inode);
    request.mutable_layout_return()->set_mode(f.recall_mode);
    session = f.session;
  }
  context_.session->Start(
      std::move(request),
      [this, file, cycle](const absl::StatusOr<v1::Reply>& reply) {
        Returned(file, cycle, reply.status());
      },
      session);
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
  if (const auto next = std::exchange(f.next_recall, std::nullopt)) {
    if (*next < f.token) Recall(f, *next);
  }
  f.changed.NotifyAll();
}

}  // namespace reel::client
