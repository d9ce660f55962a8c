#include "mdc/ops/locks.h"

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/tables/lock_table.h"
#include "mdc/tables/lock_tokens.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// What one LockReturn may tell of: twice what clients keep under a token.
constexpr int kMaxReturned = 8192;

// Only who holds the token, if somebody does, knows what is locked. (A request of the holder's own
// has crossed the grant, or the grant was lost: the recall settles that, too.)
absl::Status RequireNoToken(OpContext& ctx, InodeNumber inode) {
  if (ctx.lock_tokens.Find(inode) == nullptr) return absl::OkStatus();
  ctx.waits_for_lock_token = inode;
  return ErrnoStatus(EAGAIN, "a session decides about the inode's locks by itself");
}

bool MayTake(const OpContext& ctx, InodeNumber inode) {
  return !ctx.locks.IsShared(inode, ctx.caller.session) &&
         ctx.lock_tokens.MayHoldMore(ctx.caller.session);
}

}  // namespace

absl::Status SetLock(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const absl::StatusOr<FileLock> lock = FromProto(request.set_lock().lock(), ctx.caller.session);
  if (!lock.ok()) return lock.status();
  if (lock->type != v1::LOCK_NONE) {
    const absl::Status there = ctx.txn.Inode(lock->inode).status();
    if (!there.ok()) return there;
  }
  if (absl::Status known = RequireNoToken(ctx, lock->inode); !known.ok()) return known;
  // An unlock may split one; the last one of a file is of everything.
  const bool splits = lock->type != v1::LOCK_NONE || lock->range.first != 0;
  if (splits && ctx.locks.CountOf(ctx.caller.session) >= kMaxLocks) {
    return ErrnoStatus(ENOLCK, absl::StrCat("the client holds ", kMaxLocks, " locks"));
  }
  if (lock->type != v1::LOCK_NONE) {
    if (ctx.locks.Conflict(*lock)) {
      if (request.set_lock().wait() == 0) return ErrnoStatus(EAGAIN);
      if (ctx.locks.WouldDeadlock(*lock)) return ErrnoStatus(EDEADLK);
      ctx.waits_for_lock = true;
      return ErrnoStatus(EAGAIN);
    }
  }
  ctx.effects.on_commit.push_back([&locks = ctx.locks, lock = *lock] { locks.Set(lock); });
  if (request.set_lock().take() && MayTake(ctx, lock->inode)) {
    reply.set_lock_token(ctx.lock_tokens.NextNumber());
    ctx.effects.on_commit.push_back(
        [&tokens = ctx.lock_tokens, inode = lock->inode, session = ctx.caller.session] {
          tokens.Grant(inode, session);
        });
  }
  return absl::OkStatus();
}

absl::Status TestLock(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const absl::StatusOr<FileLock> lock = FromProto(request.test_lock().lock(), ctx.caller.session);
  if (!lock.ok()) return lock.status();
  if (lock->type == v1::LOCK_NONE) return ErrnoStatus(EINVAL, "a test for no lock");
  if (absl::Status known = RequireNoToken(ctx, lock->inode); !known.ok()) return known;
  v1::FileLock& found = *reply.mutable_lock();
  const std::optional<FileLock> conflict = ctx.locks.Conflict(*lock);
  if (!conflict) return absl::OkStatus();
  found = ToProto(*conflict);
  // A process of another host has no number here.
  if (conflict->owner.session != ctx.caller.session) found.clear_pid();
  return absl::OkStatus();
}

absl::Status CancelLock(OpContext&, const v1::Request& request, v1::Reply&) {
  if (request.cancel_lock().wait() == 0) return ErrnoStatus(EINVAL, "no wait has the number 0");
  return absl::OkStatus();
}

absl::Status LockReturn(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const v1::LockReturn& back = request.lock_return();
  const InodeNumber inode(back.inode());
  std::vector<FileLock> held;
  // Whoever says more than it may have held is left with nothing: the token is wanted back.
  const bool believable = back.locks_size() <= kMaxReturned;
  for (const v1::FileLock& claim : back.locks()) {
    if (!believable) break;
    const absl::StatusOr<FileLock> lock = FromProto(claim, ctx.caller.session);
    if (lock.ok() && lock->inode == inode && lock->type != v1::LOCK_NONE) held.push_back(*lock);
  }
  ctx.effects.on_commit.push_back([&locks = ctx.locks, &tokens = ctx.lock_tokens, inode,
                                   session = ctx.caller.session, number = back.token(),
                                   unknown = back.unknown(), held = std::move(held)] {
    if (!tokens.Return(inode, session, number) || unknown) return;
    locks.Break(inode, session);
    for (const FileLock& lock : held) {
      if (locks.CountOf(session) < kMaxLocks && !locks.Conflict(lock)) locks.Set(lock);
    }
  });
  return absl::OkStatus();
}

}  // namespace reel::mdc
