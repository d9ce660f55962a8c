// Advisory locks: who waits for them, and what administration does with them.
#include <algorithm>
#include <optional>
#include <utility>

#include "mdc/core_impl.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

void AddLock(const FileLock& lock, const SessionTable& sessions, bool waiting,
             v1::LocksReply& reply) {
  v1::LocksReply::Lock& out = *reply.add_locks();
  out.set_inode(lock.inode.value());
  out.set_kind(lock.owner.kind == v1::LOCK_WHOLE ? "flock" : "fcntl");
  out.set_type(lock.type == v1::LOCK_EXCLUSIVE ? "write" : "read");
  out.set_first(lock.range.first);
  out.set_last(lock.range.last);
  out.set_session(lock.owner.session.value());
  const auto session = sessions.all().find(lock.owner.session);
  if (session != sessions.all().end()) out.set_host(session->second->record.host());
  out.set_pid(lock.pid);
  out.set_waiting(waiting);
}

}  // namespace

void CoreImpl::ParkForLock(const PendingRef& op) {
  const auto wanted = FromProto(op->request.set_lock().lock(), op->session);
  op->lock_wait = locks_.AddWait(*wanted);
  lock_waits_[op->lock_wait] = op;
}

// Each that waits for a lock of the inode, in the order in which they came: one that may not have
// its lock yet keeps nobody from another.
void CoreImpl::RunLockWaits(InodeNumber inode) {
  for (const std::uint64_t number : locks_.WaitsFor(inode)) {
    const auto wait = lock_waits_.find(number);
    if (wait == lock_waits_.end() || !health_.ok()) continue;
    const PendingRef op = wait->second;
    if (Run(op, /*from_queue=*/true) == Outcome::kBlocked) continue;
    locks_.EndWait(inode, number);
    lock_waits_.erase(number);
  }
}

void CoreImpl::CancelLockWait(Session& session, std::uint64_t wait) {
  const auto found = std::find_if(lock_waits_.begin(), lock_waits_.end(), [&](const auto& entry) {
    return entry.second->session == session.id && entry.second->request.set_lock().wait() == wait;
  });
  if (found == lock_waits_.end()) return;
  const PendingRef op = found->second;
  lock_waits_.erase(found);
  locks_.EndWait(InodeNumber(op->request.set_lock().lock().inode()), op->lock_wait);
  --session.waiting;
  v1::Reply reply;
  reply.set_error(EINTR);
  Answer(session, op->request, std::move(reply), Sequence());
}

void CoreImpl::DropLockWaits(const Session& session) {
  absl::erase_if(lock_waits_, [&](const auto& entry) {
    const Pending& op = *entry.second;
    if (op.session != session.id) return false;
    locks_.EndWait(InodeNumber(op.request.set_lock().lock().inode()), op.lock_wait);
    return true;
  });
}

void CoreImpl::Describe(v1::LocksReply& reply) const {
  for (const FileLock& lock : locks_.Held()) AddLock(lock, sessions_, false, reply);
  for (const FileLock& lock : locks_.Waiting()) AddLock(lock, sessions_, true, reply);
}

void CoreImpl::BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                          v1::LocksReply& reply) {
  for (const auto& [id, holder] : sessions_.all()) {
    if (session && *session != id) continue;
    const std::vector<FileLock> broken = locks_.Break(inode, id);
    if (broken.empty()) continue;
    for (const FileLock& lock : broken) AddLock(lock, sessions_, false, reply);
    unlocked_.insert(inode);
    spdlog::warn("volume {}: an administrator breaks the locks of {} on inode {}", descriptor_.name,
                 holder->record.host(), inode.value());
    if (holder->stream == kNoStream) continue;
    v1::Callback callback;
    callback.mutable_locks_broken()->set_inode(inode.value());
    outputs_.EmitLast(holder->stream, std::move(callback));
  }
  Settle();
}

}  // namespace reel::mdc
