// Commits of many files at once, for an unmount, and for fsync(2) of a directory.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/base/interrupt.h"
#include "client/tokens/committer.h"
#include "proto/status.h"

namespace reel::client {

absl::StatusOr<std::vector<FileRef>> Committer::CommitTogether(const std::vector<FileRef>& all,
                                                               const Interrupt* interrupt) {
  std::vector<FileRef> files;
  std::vector<PlanRef> plans;
  const auto execute = [&] {
    Execute(plans, interrupt);
    plans.clear();
  };
  for (const FileRef& file : all) {
    MutexLock lock(file->mutex);
    if (!IsSmall(*file)) write_behind_.Start(*file, WriteBehind::kAllBytes);
  }
  for (const FileRef& file : all) {
    std::uint64_t through = 0;
    {
      MutexLock lock(file->mutex);
      if (IsSmall(*file)) continue;
      through = file->memory.last_id();
    }
    absl::Status status = write_behind_.Flush(file, WriteBehind::kAllBytes, through, interrupt);
    if (!status.ok()) return status;
  }
  for (const FileRef& file : all) {
    MutexLock lock(file->mutex);
    if (!file->uncommitted.any() && !file->uncommitted.running() && !IsSmall(*file)) continue;
    files.push_back(file);
    if (file->uncommitted.running()) continue;
    if (PlanRef plan = Begin(*file, What::kAll)) plans.push_back(std::move(plan));
    if (plans.size() < kMaxPlans) continue;
    file->mutex.Unlock();
    execute();
    file->mutex.Lock();
  }
  execute();
  return files;
}

absl::Status Committer::SyncFiles(const std::vector<FileRef>& all, const Interrupt* interrupt) {
  const absl::StatusOr<std::vector<FileRef>> files = CommitTogether(all, interrupt);
  if (!files.ok()) return files.status();
  for (const FileRef& file : *files) {
    {
      MutexLock lock(file->mutex);
      while (file->uncommitted.running()) {
        if (absl::Status status = context_.Wait(*file, interrupt); !status.ok()) return status;
      }
    }
    // What a commit of its own age left over.
    if (absl::Status status = Clean(file, interrupt); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Committer::SyncAll(std::uint64_t limit_ms) {
  const auto deadline = Deadline(context_.clock, limit_ms);
  const std::vector<FileRef> all = context_.table.All();
  if (absl::Status status = SyncFiles(all, &deadline); !status.ok()) return status;
  for (const FileRef& file : all) {
    MutexLock lock(file->mutex);
    if (!file->write_error.unreported()) continue;
    return ErrnoStatus(file->write_error.last(),
                       absl::StrCat("inode ", file->inode, " lost writes"));
  }
  return absl::OkStatus();
}

absl::Status Committer::SyncWritten(const Interrupt* interrupt) {
  std::vector<FileRef> uncommitted_files;
  {
    MutexLock lock(mutex_);
    uncommitted_files = taken_;
    for (const Listed& listed : dirty_) uncommitted_files.push_back(listed.file);
    for (const auto& [state, file] : committing_) uncommitted_files.push_back(file);
  }
  // (Not by address: a simulated history is its seed's alone.)
  std::ranges::sort(uncommitted_files, {},
                    [](const FileRef& file) { return std::pair(file->inode, file.get()); });
  uncommitted_files.erase(std::unique(uncommitted_files.begin(), uncommitted_files.end()),
                          uncommitted_files.end());
  std::vector<std::uint64_t> losses;
  std::vector<FileRef> whole, overwritten;
  for (const FileRef& file : uncommitted_files) {
    MutexLock lock(file->mutex);
    losses.push_back(file->write_error.losses());
    const bool only_time =
        file->memory.empty() && !file->uncommitted.running() && file->uncommitted.only_time();
    (only_time ? overwritten : whole).push_back(file);
  }
  if (absl::Status status = SyncFiles(whole, interrupt); !status.ok()) return status;
  for (const FileRef& file : overwritten) {
    if (FlushData(file, interrupt)) continue;
    if (absl::Status status = Clean(file, interrupt); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < uncommitted_files.size(); ++i) {
    const FileState& f = *uncommitted_files[i];
    MutexLock lock(f.mutex);
    if (f.write_error.losses() == losses[i]) continue;
    return ErrnoStatus(f.write_error.last(), absl::StrCat("inode ", f.inode, " lost writes"));
  }
  return absl::OkStatus();
}

}  // namespace reel::client
