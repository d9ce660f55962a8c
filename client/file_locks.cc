#include "client/file_locks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr int kReclaimLocks = 4'096;  // in one message
constexpr std::chrono::milliseconds kPoll(20);

v1::FileLock ToProto(const FileLocks::Lock& lock) {
  v1::FileLock out;
  out.set_inode(lock.inode);
  out.set_kind(lock.kind);
  out.set_owner(lock.owner);
  out.set_type(lock.type);
  out.set_first(lock.range.first);
  out.set_last(lock.range.last);
  out.set_pid(lock.pid);
  return out;
}

v1::Request SetRequest(const FileLocks::Lock& lock, std::uint64_t wait = 0) {
  v1::Request request;
  *request.mutable_set_lock()->mutable_lock() = ToProto(lock);
  request.mutable_set_lock()->set_wait(wait);
  return request;
}

absl::Status Lost(const FileLocks::Lock& lock) {
  return ErrnoStatus(EIO, absl::StrCat("inode ", lock.inode,
                                       ": the locks of this process were lost; close the file"));
}

}  // namespace

FileLocks::Owner* FileLocks::Find(const Lock& lock) {
  const auto found = by_inode_.find(lock.inode);
  if (found == by_inode_.end()) return nullptr;
  for (Owner& owner : found->second) {
    if (owner.kind == lock.kind && owner.number == lock.owner) return &owner;
  }
  return nullptr;
}

bool FileLocks::IsLost(const Lock& lock) {
  MutexLock guard(mutex_);
  const Owner* const owner = Find(lock);
  return owner != nullptr && owner->lost;
}

void FileLocks::Note(const Lock& lock) {
  MutexLock guard(mutex_);
  Owner* owner = Find(lock);
  if (owner == nullptr) {
    if (lock.type == v1::LOCK_NONE) return;
    owner = &by_inode_[lock.inode].emplace_back(Owner{
        .kind = lock.kind, .number = lock.owner, .pid = lock.pid, .locks = {}, .handles = {}});
  }
  owner->locks.Set(lock.range, lock.type);
  if (lock.type != v1::LOCK_NONE) owner->handles.insert(lock.handle);
  if (!owner->locks.empty() || owner->lost) return;
  Owners& owners = by_inode_[lock.inode];
  owners.erase(owners.begin() + (owner - owners.data()));
  if (owners.empty()) by_inode_.erase(lock.inode);
}

// What the owner has had in the range before, which is still what is noted: weaker locks as they
// were, and nothing between them. (Never the whole range first: somebody waits for it.)
void FileLocks::GiveBack(const Lock& lock) {
  std::vector<ByteLocks::Piece> before;
  {
    MutexLock guard(mutex_);
    if (const Owner* owner = Find(lock)) before = owner->locks.In(lock.range);
  }
  const auto set = [&](std::uint64_t first, std::uint64_t last, v1::LockType type) {
    Lock again = lock;
    again.range = {first, last};
    again.type = type;
    session_->Post(SetRequest(again));
  };
  std::uint64_t next = lock.range.first;
  for (const auto& [range, type] : before) {
    if (next < range.first) set(next, range.first - 1, v1::LOCK_NONE);
    set(range.first, range.last, type);
    next = range.last + 1;
  }
  if (before.empty() || before.back().range.last < lock.range.last) {
    set(next, lock.range.last, v1::LOCK_NONE);
  }
}

absl::Status FileLocks::Set(const Lock& lock, bool wait, const Interrupt* interrupt) {
  if (IsLost(lock)) return Lost(lock);
  if (lock.type == v1::LOCK_NONE) {
    Unlock(lock, interrupt);
    return absl::OkStatus();
  }
  if (wait && waits_.fetch_add(1) >= kMaxWaits) {
    --waits_;
    return ErrnoStatus(ENOLCK, absl::StrCat(kMaxWaits, " processes wait for locks already"));
  }
  const std::uint64_t number = wait ? ++last_wait_ : 0;
  // Whoever comes second, the grant or the caller who gave up, takes the lock back.
  const auto one_came = std::make_shared<std::atomic<bool>>(false);
  CallOptions options;
  options.interrupt = interrupt;
  options.on_reply = [this, lock, one_came](const v1::Reply&) {
    if (one_came->exchange(true)) {
      GiveBack(lock);
    } else {
      Note(lock);
    }
  };
  options.on_done = [](const absl::StatusOr<v1::Reply>&) {};  // sent although nobody waits
  absl::Status status = session_->Call(SetRequest(lock, number), options).status();
  if (wait) --waits_;
  if (status.ok()) return status;
  const int error = ErrnoOf(status);
  const bool gave_up = error == EINTR || error == ETIMEDOUT;
  if (gave_up && one_came->exchange(true)) return absl::OkStatus();  // granted all the same
  if (gave_up && wait) {
    v1::Request cancel;
    cancel.mutable_cancel_lock()->set_wait(number);
    session_->Post(std::move(cancel));
  }
  return error == ESTALE ? Lost(lock) : status;
}

// It is carried out once, whoever waits for it.
void FileLocks::Unlock(const Lock& lock, const Interrupt* interrupt) {
  struct Outcome {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
  };
  const auto outcome = std::make_shared<Outcome>();
  session_->Start(SetRequest(lock), [this, lock, outcome](const absl::StatusOr<v1::Reply>& reply) {
    if (reply.ok()) Note(lock);
    MutexLock guard(outcome->mutex);
    outcome->done = true;
    outcome->changed.NotifyAll();
  });
  MutexLock guard(outcome->mutex);
  while (!outcome->done && !session_->Away() &&
         (interrupt == nullptr || !interrupt->interrupted())) {
    outcome->changed.WaitFor(outcome->mutex, kPoll);
  }
}

absl::StatusOr<std::optional<v1::FileLock>> FileLocks::Test(const Lock& lock,
                                                            const Interrupt* interrupt) {
  if (IsLost(lock)) return Lost(lock);
  v1::Request request;
  *request.mutable_test_lock()->mutable_lock() = ToProto(lock);
  CallOptions options;
  options.interrupt = interrupt;
  absl::StatusOr<v1::Reply> reply = session_->Call(std::move(request), options);
  if (!reply.ok()) return reply.status();
  if (reply->lock().type() == v1::LOCK_NONE) return std::optional<v1::FileLock>();
  return std::optional(std::move(*reply->mutable_lock()));
}

void FileLocks::Flush(std::uint64_t inode, std::uint64_t owner, const Interrupt* interrupt) {
  const Lock all{.inode = inode, .kind = v1::LOCK_RANGES, .owner = owner, .range = {0, kToEnd}};
  {
    MutexLock guard(mutex_);
    Owner* const found = Find(all);
    if (found == nullptr) return;
    found->lost = false;
  }
  Unlock(all, interrupt);
}

void FileLocks::Release(std::uint64_t inode, std::uint64_t handle, const Interrupt* interrupt) {
  std::vector<Lock> gone;
  {
    MutexLock guard(mutex_);
    const auto found = by_inode_.find(inode);
    if (found == by_inode_.end()) return;
    for (Owner& owner : found->second) {
      if (owner.handles.erase(handle) == 0 || !owner.handles.empty()) continue;
      owner.lost = false;
      gone.push_back(
          {.inode = inode, .kind = owner.kind, .owner = owner.number, .range = {0, kToEnd}});
    }
  }
  for (const Lock& lock : gone) Unlock(lock, interrupt);
}

void FileLocks::AddTo(std::vector<v1::Reclaim>& reclaims) const {
  MutexLock guard(mutex_);
  for (const auto& [inode, owners] : by_inode_) {
    for (const Owner& owner : owners) {
      for (const ByteLocks::Piece& piece : owner.locks.All()) {
        if (reclaims.back().locks_size() >= kReclaimLocks) reclaims.emplace_back();
        *reclaims.back().add_locks() = ToProto({.inode = inode,
                                                .kind = owner.kind,
                                                .owner = owner.number,
                                                .range = piece.range,
                                                .type = piece.type,
                                                .pid = owner.pid});
      }
    }
  }
}

void FileLocks::Lose(Owners& owners) {
  for (Owner& owner : owners) {
    owner.locks = ByteLocks();
    owner.lost = true;
  }
}

void FileLocks::OnEvicted() {
  MutexLock guard(mutex_);
  for (auto& [inode, owners] : by_inode_) Lose(owners);
  if (!by_inode_.empty()) {
    spdlog::error("the locks on {} files are lost with the session", by_inode_.size());
  }
}

void FileLocks::OnBroken(std::uint64_t inode) {
  MutexLock guard(mutex_);
  const auto found = by_inode_.find(inode);
  if (found == by_inode_.end()) return;
  spdlog::error("inode {}: an administrator has broken its locks", inode);
  Lose(found->second);
}

}  // namespace reel::client
