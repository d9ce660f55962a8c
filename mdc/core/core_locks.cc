// Advisory locks: who waits for them or for a lock token, and what administration does with them.
#include <algorithm>
#include <optional>
#include <utility>

#include "mdc/core/core_impl.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// Administration waits that long for what sessions lock by themselves.
constexpr std::uint64_t kLockFetchMs = 1'000;

const char* NameOf(v1::LockKind kind) {
  return kind == v1::LOCK_WHOLE ? "flock" : kind == v1::LOCK_WRITER ? "writer" : "fcntl";
}

void AddLock(const FileLock& lock, const SessionTable& sessions, bool waiting,
             v1::LocksReply& reply) {
  v1::LocksReply::Lock& out = *reply.add_locks();
  out.set_inode(lock.inode.value());
  out.set_kind(NameOf(lock.owner.kind));
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

void CoreImpl::RunLockTokenWaits(InodeNumber inode) {
  const auto waits = lock_token_waits_.find(inode);
  if (waits == lock_token_waits_.end()) return;
  const std::vector<PendingRef> ops = std::move(waits->second);
  lock_token_waits_.erase(waits);
  for (const PendingRef& op : ops) {
    if (op->cancelled || !health_.ok()) continue;
    if (Run(op, /*from_queue=*/true) == Outcome::kBlocked) Park(op, op->blocked_on);
  }
}

PendingRef CoreImpl::TakeLockWait(SessionId session, std::uint64_t wait) {
  const auto is_meant = [&](const PendingRef& op) {
    return op->session == session && op->request.has_set_lock() &&
           op->request.set_lock().wait() == wait;
  };
  for (auto it = lock_waits_.begin(); it != lock_waits_.end(); ++it) {
    if (!is_meant(it->second)) continue;
    PendingRef taken = it->second;
    locks_.EndWait(InodeNumber(taken->request.set_lock().lock().inode()), taken->lock_wait);
    lock_waits_.erase(it);
    return taken;
  }
  for (auto& [inode, ops] : lock_token_waits_) {
    const auto found = std::find_if(ops.begin(), ops.end(), is_meant);
    if (found == ops.end()) continue;
    PendingRef taken = *found;
    ops.erase(found);
    return taken;
  }
  return nullptr;
}

// What waits for a token of its own session's may have been granted along with that, by a reply
// that was lost with its stream. So it is not over before the token is back, which is soon.
void CoreImpl::CancelLockWait(SessionId session, std::uint64_t wait) {
  const PendingRef op = TakeLockWait(session, wait);
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
  const LockToken* const token = lock_tokens_.Find(op.blocked_on);
  return op.waits_for_lock_token && token != nullptr && token->session == op.session;
}

void CoreImpl::DropLockWaits(const Session& session) {
  absl::erase_if(lock_waits_, [&](const auto& entry) {
    const Pending& op = *entry.second;
    if (op.session != session.id) return false;
    locks_.EndWait(InodeNumber(op.request.set_lock().lock().inode()), op.lock_wait);
    return true;
  });
  for (auto& [inode, ops] : lock_token_waits_) {
    std::erase_if(ops, [&](const PendingRef& op) { return op->session == session.id; });
  }
}

// ---- tokens -----------------------------------------------------------------------------------

void CoreImpl::RecallLocks(InodeNumber inode, bool contended) {
  if (!lock_tokens_.Recall(inode, contended)) return;
  const LockToken& token = *lock_tokens_.Find(inode);
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
      session->WillResend(RecallClock::Kind::kLocks, token.inode)) {
    return;
  }
  v1::Callback callback;
  callback.mutable_recall_locks()->set_inode(token.inode.value());
  callback.mutable_recall_locks()->set_token(token.number);
  callback.mutable_recall_locks()->set_contended(token.contended);
  outputs_.EmitLast(session->stream, std::move(callback));
}

// ---- administration ---------------------------------------------------------------------------

void CoreImpl::FetchLocks(std::optional<InodeNumber> inode,
                          std::function<void(bool answered)> then) {
  if (fetches_ended_) return then(false);
  LockFetch fetch;
  fetch.until_ms = clock_.NowMs() + kLockFetchMs;
  fetch.then = std::move(then);
  for (const LockToken& token : lock_tokens_.All()) {
    if (inode && token.inode != *inode) continue;
    fetch.tokens.insert(token.number);
    RecallLocks(token.inode, /*contended=*/false);
  }
  lock_fetches_.push_back(std::move(fetch));
  EndLockFetches();
}

void CoreImpl::EndLockFetches() {
  if (lock_fetches_.empty()) return;
  absl::flat_hash_set<std::uint64_t> out;
  for (const LockToken& token : lock_tokens_.All()) out.insert(token.number);
  std::vector<LockFetch> over;
  std::erase_if(lock_fetches_, [&](LockFetch& fetch) {
    absl::erase_if(fetch.tokens, [&](std::uint64_t number) { return !out.contains(number); });
    if (!fetch.tokens.empty() && clock_.NowMs() < fetch.until_ms) return false;
    over.push_back(std::move(fetch));
    return true;
  });
  for (const LockFetch& fetch : over) fetch.then(true);
}

void CoreImpl::EndFetches() {
  fetches_ended_ = true;
  for (const LockFetch& fetch : std::exchange(lock_fetches_, {})) fetch.then(false);
}

void CoreImpl::Describe(v1::LocksReply& reply) const {
  for (const FileLock& lock : locks_.Held()) AddLock(lock, sessions_, false, reply);
  for (const FileLock& lock : locks_.Waiting()) AddLock(lock, sessions_, true, reply);
}

void CoreImpl::BreakLocks(InodeNumber inode, std::optional<SessionId> session,
                          v1::LocksReply& reply) {
  for (const auto& [id, holder] : sessions_.all()) {
    if (session && *session != id) continue;
    const bool decides = lock_tokens_.Break(inode, id);
    const std::vector<FileLock> broken = locks_.Break(inode, id);
    if (broken.empty() && !decides) continue;
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
