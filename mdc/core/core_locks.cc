// Advisory locks: operations that wait for them or for a lock token run again, tokens are recalled,
// and administration sees and breaks what is locked.
#include <optional>
#include <utility>

#include "mdc/core/core_impl.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

const char* WordFor(v1::LockKind kind) {
  return kind == v1::LOCK_WHOLE ? "flock" : kind == v1::LOCK_WRITER ? "writer" : "fcntl";
}

void AddLock(const FileLock& lock, const SessionTable& sessions, bool waiting,
             v1::LocksReply& reply) {
  v1::LocksReply::Lock& out = *reply.add_locks();
  out.set_inode(lock.inode.value());
  out.set_kind(WordFor(lock.owner.kind));
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

void CoreImpl::RunLockWaits(InodeNumber inode) {
  holdings_.lock_waits.TryLocks(inode, [this](const PendingRef& op) {
    return !health_.ok() || Run(op, /*from_queue=*/true) == Outcome::kBlocked;
  });
}

void CoreImpl::RunLockTokenWaits(InodeNumber inode) {
  for (const PendingRef& op : holdings_.lock_waits.TakeForToken(inode)) {
    if (op->cancelled || !health_.ok()) continue;
    if (Run(op, /*from_queue=*/true) == Outcome::kBlocked) Park(op, op->blocked_on);
  }
}

// What waits for a token of its own session's may have been granted along with that, by a reply
// that was lost with its stream. So it is not over before the token is back, which is soon.
void CoreImpl::CancelLockWait(SessionId session, std::uint64_t wait) {
  const PendingRef op = holdings_.lock_waits.Take(session, wait);
  if (op == nullptr) return;
  op->gives_up = true;
  Park(op, op->blocked_on);
}

void CoreImpl::GiveUpLockWait(const Pending& op) {
  Session& session = *sessions_.Find(op.session);
  --session.waiting;
  session.waiting_bytes -= op.bytes;
  v1::Reply reply;
  reply.set_error(EINTR);
  Answer(session, op.request, std::move(reply), Sequence());
}

bool CoreImpl::WaitsForOwnLockToken(const Pending& op) const {
  const LockToken* const token = holdings_.lock_tokens.Find(op.blocked_on);
  return op.waits_for_lock_token && token != nullptr && token->session == op.session;
}

// ---- tokens -----------------------------------------------------------------------------------

void CoreImpl::RecallLocks(InodeNumber inode, bool contended) {
  if (!holdings_.lock_tokens.Recall(inode, contended)) return;
  const LockToken& token = *holdings_.lock_tokens.Find(inode);
  if (Session* const session = sessions_.Find(token.session)) {
    session->recalls.Note({.since_ms = session_clock_.NowMs(),
                           .kind = RecallClock::Kind::kLocks,
                           .inode = inode,
                           .number = token.number});
  }
  SendLockRecall(token);
}

// Behind the reply that granted it. Without a stream it goes out when the session resumes, or is
// settled by the eviction.
void CoreImpl::SendLockRecall(const LockToken& token) {
  ++counters_.recalls;
  const Session* session = sessions_.Find(token.session);
  if (session == nullptr || session->stream == kNoStream ||
      work_.resends.WillSend(session->id, RecallClock::Kind::kLocks, token.inode)) {
    return;
  }
  v1::Callback callback;
  callback.mutable_recall_locks()->set_inode(token.inode.value());
  callback.mutable_recall_locks()->set_token(token.number);
  callback.mutable_recall_locks()->set_contended(token.contended);
  outbox_.queue.EmitLast(session->stream, std::move(callback));
}

// ---- administration ---------------------------------------------------------------------------

void CoreImpl::FetchLocks(std::optional<InodeNumber> inode,
                          std::function<void(bool answered)> then) {
  const std::uint64_t now_ms = clock_.NowMs();
  for (const InodeNumber held : holdings_.lock_queries.Begin(inode, now_ms, std::move(then))) {
    RecallLocks(held, /*contended=*/false);
  }
  holdings_.lock_queries.Advance(now_ms);
}

void CoreImpl::EndFetches() {
  holdings_.lock_queries.Close();
  outbox_.waits.Close();
}

void CoreImpl::Describe(v1::LocksReply& reply) const {
  for (const FileLock& lock : holdings_.locks.Held()) AddLock(lock, sessions_, false, reply);
  for (const FileLock& lock : holdings_.locks.Waiting()) AddLock(lock, sessions_, true, reply);
}

void CoreImpl::BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                          v1::LocksReply& reply) {
  for (const auto& [id, holder] : sessions_.all()) {
    if (session && *session != id) continue;
    const bool decides = holdings_.lock_tokens.Break(inode, id);
    const std::vector<FileLock> broken = holdings_.locks.Break(inode, id);
    if (broken.empty() && !decides) continue;
    for (const FileLock& lock : broken) AddLock(lock, sessions_, false, reply);
    holdings_.lock_waits.Wake(inode);
    spdlog::warn("volume {}: an administrator breaks the locks of {} on inode {}", descriptor_.name,
                 holder->record.host(), inode.value());
    if (holder->stream == kNoStream) continue;
    v1::Callback callback;
    callback.mutable_locks_broken()->set_inode(inode.value());
    outbox_.queue.EmitLast(holder->stream, std::move(callback));
  }
  RunWoken();
}

}  // namespace reel::mdc
