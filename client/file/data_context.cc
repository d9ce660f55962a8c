#include "client/file/data_context.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "client/base/interrupt.h"
#include "client/names/pending_changes.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {

absl::Status DataContext::Wait(FileState& file, const Interrupt* interrupt) {
  if (stopping) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  if (file.changed.WaitFor(file.mutex, kPoll)) return absl::OkStatus();
  file.mutex.Unlock();
  absl::Status status = GoesOn(interrupt);
  file.mutex.Lock();
  return status;
}

void DataContext::NoteLostFlushes(FileState& file) {
  const std::optional<BlockSet> of_commit = file.uncommitted.TakeLostCommit(*io);
  if (of_commit) file.LoseWritten(*of_commit);
  const bool of_dirty = file.uncommitted.Prune(*io);
  if (of_dirty) file.LoseDirty();
  if (of_commit || of_dirty) file.NoteLoss(ErrnoStatus(EIO, "a flush failed"));
}

void DataContext::NoteUnflushed(FileState& file, LunMarks marks) {
  NoteLostFlushes(file);
  (void)io->Prune(marks);
  if (marks.empty()) return;
  file.uncommitted.CountOnLuns(marks);
}

absl::Status DataContext::AwaitMemory(const Interrupt* interrupt) {
  if (stopping) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  return behind_memory.AwaitRoom(kPoll) ? absl::OkStatus() : GoesOn(interrupt);
}

absl::Status DataContext::GoesOn(const Interrupt* interrupt) const {
  absl::Status status = CheckInterrupt(interrupt, "the file's token");
  if (status.ok() && session->TimedOut()) status = ErrnoStatus(ETIMEDOUT, "no controller answers");
  return status;
}

absl::Status DataContext::AwaitLease(const Interrupt* interrupt) {
  while (!session->LeaseHolds()) {
    v1::Request request;
    request.mutable_renew();
    CallOptions call;
    call.interrupt = interrupt;
    absl::Status status = session->Call(std::move(request), call).status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void DataContext::LoseEarly(std::uint64_t first) {
  for (const FileRef& file : table.All()) {
    MutexLock lock(file->mutex);
    if (!file->opens.IsMadeBy(first)) continue;
    file->NoteLoss(ErrnoStatus(EIO, "the file was lost with the session"));
  }
}

void DataContext::LoseAttributes(const v1::Request& change) {
  for (const std::uint64_t inode : PendingChanges::Of(change).inodes) {
    const FileRef file = table.Find(inode);
    if (file == nullptr) continue;
    MutexLock lock(file->mutex);
    file->DistrustAttr();
  }
}

RecallWork DataContext::LookAtRecalls(const LunPaths* lun_paths) const {
  RecallWork work;
  const std::optional<std::uint64_t> stalled_ms = recalls.StalledMs();
  work.any = stalled_ms.has_value();
  work.stalled_ms = stalled_ms.value_or(0);
  if (lun_paths == nullptr) return work;
  const std::optional<LunPaths::Lost> lost = lun_paths->LongestLost();
  if (!lost) return work;
  const std::uint64_t now_ms = clock.NowMs();
  work.trouble = lost->problem;
  work.lost_lun = lost->lun.ToBytes();
  work.lost_ms = now_ms - std::min(now_ms, lost->since_ms);
  return work;
}

void DataContext::DropMemory() {
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  for (const FileRef& file : table.All()) {
    MutexLock lock(file->mutex);
    bytes += file->memory.bytes();
    files += file->memory.empty() ? 0 : 1;
    file->memory.Clear();
  }
  if (files > 0) spdlog::error("{} bytes written to {} files never reached a LUN", bytes, files);
}

void DataContext::RegisterOpens(FileState& file, std::function<void()> done) {
  const std::uint64_t number = file.opens.BeginRegistering();
  if (number == 0) {
    if (done) done();
    return;
  }
  v1::Request request;
  request.mutable_open()->set_inode(file.inode);
  session->Start(std::move(request),
                 [file = file.shared_from_this(), number,
                  done = std::move(done)](const absl::StatusOr<v1::Reply>& reply) {
                   // (A session that sends no more says so under this file's mutex.)
                   const int error = ErrnoOf(reply.status());
                   if (error != ESHUTDOWN && error != ENODEV) {
                     MutexLock lock(file->mutex);
                     file->opens.EndRegistering(number, error == 0);
                   }
                   if (done) done();
                 });
}

void DataContext::TellClosed(std::uint64_t inode, bool lowers_token) {
  v1::Request request;
  request.mutable_close()->set_inode(inode);
  request.mutable_close()->set_lowers_token(lowers_token);
  session->Post(std::move(request));
}

}  // namespace reel::client
