#include "client/tokens/recaller.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "proto/convert.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// What is dropped at once: less after pages were filled again meanwhile, so that in the end it is
// one page, between two of its requests.
constexpr std::uint64_t kFirstDropBytes = 16 * kMiB;
constexpr std::uint64_t kMostDropBytes = 1024 * kMiB;
constexpr ByteRange kAllPages{0, kMaxFileBytes};

using Stage = RecallProgress::Stage;

}  // namespace

void Recaller::Recall(FileState& f, const RecallProgress::Recalled& recalled) {
  if (!f.recall.Begin(recalled, f.last_used)) return;
  context_.recalls.Begin(f.inode);
  f.changed.NotifyAll();
  pool_.Run([this, file = f.shared_from_this(), cycle = f.recall.cycle()] { Drain(file, cycle); });
  // The invalidation would wait for it.
  if (!f.kernel_pages.empty() && f.page_fetches.WaitForToken(f.grant.token())) Bypass(f);
}

void Recaller::Bypass(FileState& f) {
  if (!f.recall.Close()) return;
  const std::uint64_t cycle = f.recall.cycle();
  {
    MutexLock lock(mutex_);
    if (bypassed_.emplace(f.inode, cycle).second) pool_.Lend();
  }
  bypasses_.Run([this, file = f.shared_from_this(), cycle, fills = f.kernel_pages.fills()] {
    // The page that was waited for is there: from now on nobody has to wait for it.
    if (!Return(file, cycle, fills)) pool_.Run([this, file, cycle] { Drain(file, cycle); });
  });
}

absl::Status Recaller::DropPages(const FileRef& file, const ByteRange& range,
                                 const Interrupt* interrupt) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  while (f.kernel_pages.MayHold(range)) {
    const auto done = std::make_shared<bool>(false);  // under the file's mutex
    drops_.Run([this, file, range, done] {
      (void)dropper_.Drop(*file, range);
      MutexLock lock_of_file(file->mutex);
      *done = true;
      file->changed.NotifyAll();
    });
    while (!*done) {
      if (absl::Status status = context_.Wait(f, interrupt); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

bool Recaller::DropAll(FileState& f, std::uint64_t cycle) {
  std::uint64_t most_bytes = kFirstDropBytes;
  for (ByteRange range{};;) {  // at first attributes alone
    const bool dropped = dropper_.Drop(f, range);
    if (range.to != 0) {
      most_bytes = dropped ? std::min(2 * most_bytes, kMostDropBytes)
                           : std::max(most_bytes / 2, KernelPages::kPageBytes);
    }
    MutexLock lock(f.mutex);
    if (f.recall.IsOver(cycle) || f.recall.stage() != Stage::kDraining) return false;
    if (f.kernel_pages.empty()) return f.recall.Close();
    range = f.kernel_pages.First(most_bytes);
  }
}

void Recaller::Drain(const FileRef& file, std::uint64_t cycle) {
  DropAndReturn(file, cycle);
  MutexLock lock(mutex_);
  if (bypassed_.erase({file->inode, cycle}) > 0) pool_.TakeBack();
}

void Recaller::DropAndReturn(const FileRef& file, std::uint64_t cycle) {
  while (DropAll(*file, cycle)) {
    if (Return(file, cycle, std::nullopt)) return;
  }
  (void)dropper_.Drop(*file, kAllPages);  // overtaken: they are old all the same
}

bool Recaller::Return(const FileRef& file, std::uint64_t cycle,
                      std::optional<std::uint64_t> clean_fills) {
  FileState& f = *file;
  bool release_tail = false;
  {
    MutexLock lock(f.mutex);
    while (!f.recall.IsOver(cycle) && !f.drained()) {
      if (!context_.Wait(f, nullptr).ok() && context_.stopping) return true;
    }
    if (f.recall.IsOver(cycle)) return true;
    // A grant from before the recall had its one use, and that was to fill some.
    const bool gone = clean_fills ? f.kernel_pages.fills() == *clean_fills : f.kernel_pages.empty();
    if (!gone) {
      f.recall.Reopen();
      return false;
    }
    f.recall.BeginReturn(f.last_used);
    const RecallProgress::Recalled& back = f.recall.recalled();
    // (Who still writes goes on where it was, after somebody has only looked.)
    const bool goes = back.mode == v1::TOKEN_NONE || !f.opens.any();
    release_tail = goes && back.span.Contains(f.EndSpan());
  }
  if (release_tail) committer_.ReleaseTail(file, cycle);
  std::uint64_t session = 0;
  auto request = Yield(file, cycle, session);
  if (!request) return true;
  context_.session->Start(
      *std::move(request),
      [this, file, cycle](const absl::StatusOr<v1::Reply>& reply) {
        Returned(file, cycle, reply.status());
      },
      session);
  return true;
}

// It goes first: without the token it would be refused. Once more after a flush that failed: the
// bytes are lost then, and what is left is the size, which others are to see.
bool Recaller::Commit(FileState& f, std::uint64_t cycle) {
  constexpr int kMostCommits = 3;
  const FileRef file = f.shared_from_this();
  int commits = 0;
  while (!f.recall.IsOver(cycle) &&
         (f.on_its_way() || (commits < kMostCommits && f.DirtyIn(f.recall.recalled().span)))) {
    if (context_.stopping) return false;
    if (f.on_its_way()) {
      (void)context_.Wait(f, nullptr);
      continue;
    }
    f.mutex.Unlock();
    if (committer_.Clean(file, nullptr).ok()) ++commits;
    f.mutex.Lock();
  }
  return !f.recall.IsOver(cycle);
}

std::optional<v1::Request> Recaller::Yield(const FileRef& file, std::uint64_t cycle,
                                           std::uint64_t& session) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  if (!Commit(f, cycle)) return std::nullopt;
  // Lowered when it is sent, not when it is answered: a new controller hears of the lower one.
  const RecallProgress::Recalled back = f.recall.recalled();
  f.LowerToken(back.span, back.mode);
  if (f.grant.empty()) context_.RegisterOpens(f);
  session = f.grant.session();
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
  if (f.recall.IsOver(cycle)) return;
  if (!status.ok() && ErrnoOf(status) != ESHUTDOWN && ErrnoOf(status) != ESTALE) {
    spdlog::warn("inode {}: the controller refused the return of its token: {}", f.inode,
                 std::string(status.message()));
  }
  const std::optional<RecallProgress::Recalled> next = f.recall.End();
  context_.recalls.End(f.inode);
  if (next) Recall(f, *next);
  f.changed.NotifyAll();
}

}  // namespace reel::client
