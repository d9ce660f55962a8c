// This host as the single writer of a file: a lock that all its open files hold together.
//
// Who wants it says so before the call; the last one to go unlocks, and who comes meanwhile waits
// for the answer to that: so nobody who holds it is left without.
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/base/interrupt.h"
#include "client/locks/file_locks.h"
#include "proto/status.h"

namespace reel::client {
namespace {

FileLocks::Lock WriterLock(std::uint64_t inode, v1::LockType type) {
  return {.inode = inode, .kind = v1::LOCK_WRITER, .range = {0, FileLocks::kToEnd}, .type = type};
}

}  // namespace

absl::Status FileLocks::BecomeWriter(std::uint64_t inode, std::uint64_t handle, std::uint32_t pid,
                                     const Interrupt* interrupt) {
  Lock lock = WriterLock(inode, v1::LOCK_EXCLUSIVE);
  lock.handle = handle;
  lock.pid = pid;
  absl::Status status;
  {
    MutexLock guard(mutex_);
    files_[inode].writers.insert(handle);
    const auto done = [&] {
      mutex_.AssertHeld();
      return files_[inode].writer_unlocks == 0;
    };
    status = WaitFor(writer_unlocked_, mutex_, done,
                     [&] { return CheckInterrupt(interrupt, "the writer before"); });
    const Owner* const owner = Find(lock);
    if (status.ok() && owner != nullptr && !owner->lost) return status;
  }
  if (status.ok()) status = Set(lock, /*wait=*/false, interrupt);
  if (status.ok()) return status;
  DropWriter(inode, handle);
  if (ErrnoOf(status) != EAGAIN) return status;
  return ErrnoStatus(EBUSY,
                     absl::StrCat("inode ", inode, " has another host as its single writer"));
}

absl::Status FileLocks::CheckWriter(std::uint64_t inode) {
  if (lost_writers_.load(std::memory_order_relaxed) == 0) return absl::OkStatus();
  const Lock lock = WriterLock(inode, v1::LOCK_NONE);
  MutexLock guard(mutex_);
  const Owner* const owner = Find(lock);
  return owner != nullptr && owner->lost ? LostLocks(lock) : absl::OkStatus();
}

void FileLocks::DropWriter(std::uint64_t inode, std::uint64_t handle) {
  {
    MutexLock guard(mutex_);
    File* const file = Find(inode);
    if (file == nullptr || file->writers.erase(handle) == 0) return;
  }
  UnlockUnwanted(inode);
}

void FileLocks::UnlockUnwanted(std::uint64_t inode) {
  const Lock unlock = WriterLock(inode, v1::LOCK_NONE);
  {
    MutexLock guard(mutex_);
    File* const file = Find(inode);
    if (file == nullptr || !file->writers.empty()) return;
    Owner* const owner = Find(unlock);
    if (owner == nullptr || file->writer_unlocks > 0) return Forget(inode);
    if (owner->lost) --lost_writers_;
    if (std::exchange(owner->lost, false) || file->token != 0) return Note(unlock);
    ++file->calls;
    ++file->writer_unlocks;
  }
  session_->Start(SetRequest(unlock), [this, unlock](const absl::StatusOr<v1::Reply>& reply) {
    {
      MutexLock guard(mutex_);
      --files_[unlock.inode].writer_unlocks;
      if (reply.ok()) Note(unlock);
      writer_unlocked_.NotifyAll();
    }
    EndCall(unlock.inode);
  });
}

// Its caller has given up meanwhile; others may want it still.
void FileLocks::OnLateWriter(const Lock& lock, std::uint64_t token) {
  OnGranted(lock, token);
  UnlockUnwanted(lock.inode);
}

}  // namespace reel::client
