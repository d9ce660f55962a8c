#include "client/fuse/fuse_locks.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/file.h>

#include <cerrno>
#include <optional>

#include "client/fuse/fuse_interrupt.h"
#include "client/fuse/fuse_ops.h"
#include "client/fuse/fuse_reply.h"

namespace reel::client {
namespace {

FileLocks& LocksOf(fuse_req_t req) {
  return static_cast<FuseFileSystem*>(fuse_req_userdata(req))->locks;
}

v1::LockType TypeOf(int type) {
  return type == F_WRLCK ? v1::LOCK_EXCLUSIVE : type == F_RDLCK ? v1::LOCK_SHARED : v1::LOCK_NONE;
}

FileLocks::Lock RangeOf(fuse_ino_t inode, const fuse_file_info& info, const struct flock& lock) {
  const auto first = static_cast<std::uint64_t>(lock.l_start);
  const auto length = static_cast<std::uint64_t>(lock.l_len);
  return {.inode = inode,
          .kind = v1::LOCK_RANGES,
          .owner = info.lock_owner,
          .handle = info.fh,
          .range = {first, length == 0 ? FileLocks::kToEnd : first + length - 1},
          .type = TypeOf(lock.l_type),
          .pid = static_cast<std::uint32_t>(lock.l_pid)};
}

void OnGetlk(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info, struct flock* lock) {
  const FuseInterrupt interrupt(req);
  const auto found = LocksOf(req).Test(RangeOf(inode, *info, *lock), &interrupt);
  if (!found.ok()) return ReplyStatus(req, found.status());
  struct flock out {};
  out.l_type = F_UNLCK;
  out.l_whence = SEEK_SET;
  if (*found) {
    const v1::FileLock& held = **found;
    out.l_type = held.type() == v1::LOCK_EXCLUSIVE ? F_WRLCK : F_RDLCK;
    out.l_start = static_cast<off_t>(held.first());
    out.l_len =
        held.last() >= FileLocks::kToEnd ? 0 : static_cast<off_t>(held.last() - held.first() + 1);
    out.l_pid = static_cast<pid_t>(held.pid());
  }
  fuse_reply_lock(req, &out);
}

void OnSetlk(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info, struct flock* lock,
             int sleeps) {
  // Any signal ends the wait for a lock, as in Linux; the kernel goes on waiting by itself where
  // the signal's handler was set up for that.
  const AnySignal interrupt(req);
  ReplyStatus(req, LocksOf(req).Set(RangeOf(inode, *info, *lock), sleeps != 0, &interrupt));
}

void OnFlock(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info, int operation) {
  const AnySignal interrupt(req);
  const int what = operation & ~LOCK_NB;
  const FileLocks::Lock lock{.inode = inode,
                             .kind = v1::LOCK_WHOLE,
                             .owner = info->lock_owner,
                             .handle = info->fh,
                             .range = {0, FileLocks::kToEnd},
                             .type = what == LOCK_EX   ? v1::LOCK_EXCLUSIVE
                                     : what == LOCK_SH ? v1::LOCK_SHARED
                                                       : v1::LOCK_NONE,
                             .pid = static_cast<std::uint32_t>(fuse_req_ctx(req)->pid)};
  ReplyStatus(req, LocksOf(req).Set(lock, (operation & LOCK_NB) == 0, &interrupt));
}

// close(2) of a descriptor: a process's ranges go with it, and it learns of lost writes.
void OnFlush(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  const FuseInterrupt interrupt(req);
  Caller caller;
  caller.handle = info->fh;
  caller.interrupt = &interrupt;
  LocksOf(req).Flush(inode, info->lock_owner, &interrupt);
  ReplyStatus(req, static_cast<FuseFileSystem*>(fuse_req_userdata(req))->vfs.Flush(inode, caller));
}

}  // namespace

void AddLockCalls(fuse_lowlevel_ops& ops) {
  ops.getlk = OnGetlk;
  ops.setlk = OnSetlk;
  ops.flock = OnFlock;
  ops.flush = OnFlush;
}

}  // namespace reel::client
