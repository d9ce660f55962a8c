#include "mdc/ops/locks.h"

#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "mdc/lock_table.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// Pieces that a session may hold, some 100 bytes each.
constexpr std::uint64_t kMaxLocks = 1 << 20;

}  // namespace

absl::Status SetLock(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const absl::StatusOr<FileLock> lock = FromProto(request.set_lock().lock(), ctx.session);
  if (!lock.ok()) return lock.status();
  if (lock->type != v1::LOCK_NONE) {
    if (ctx.locks.CountOf(ctx.session) >= kMaxLocks) {
      return ErrnoStatus(ENOLCK, absl::StrCat("the client holds ", kMaxLocks, " locks"));
    }
    if (ctx.locks.Conflict(*lock)) {
      if (request.set_lock().wait() == 0) return ErrnoStatus(EAGAIN);
      if (ctx.locks.WouldDeadlock(*lock)) return ErrnoStatus(EDEADLK);
      ctx.waits_for_lock = true;
      return ErrnoStatus(EAGAIN);
    }
  }
  ctx.on_commit.push_back([&locks = ctx.locks, lock = *lock] { locks.Set(lock); });
  return absl::OkStatus();
}

absl::Status TestLock(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const absl::StatusOr<FileLock> lock = FromProto(request.test_lock().lock(), ctx.session);
  if (!lock.ok()) return lock.status();
  if (lock->type == v1::LOCK_NONE) return ErrnoStatus(EINVAL, "a test for no lock");
  v1::FileLock& found = *reply.mutable_lock();
  const std::optional<FileLock> conflict = ctx.locks.Conflict(*lock);
  if (!conflict) return absl::OkStatus();
  found = ToProto(*conflict);
  // A process of another host has no number here.
  if (conflict->owner.session != ctx.session) found.clear_pid();
  return absl::OkStatus();
}

absl::Status CancelLock(OpContext&, const v1::Request& request, v1::Reply&) {
  if (request.cancel_lock().wait() == 0) return ErrnoStatus(EINVAL, "no wait has the number 0");
  return absl::OkStatus();
}

}  // namespace reel::mdc
