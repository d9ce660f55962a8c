#include "client/locks/file_locks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/base/interrupt.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr int kReclaimLocks = 4'096;  // in one message
// A signal waits a second at most for the answer to what it interrupted: in grace there is none.
constexpr int kMostPolls = 50;

// That a call has ended, for a caller who waits without it.
class Answered {
 public:
  void Note() {
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  // Until then, or until the controller is away: whether to look again.
  bool Await(const Session& session) {
    MutexLock lock(mutex_);
    if (!done_ && !session.Away()) changed_.WaitFor(mutex_, kPoll);
    return !done_ && !session.Away();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

v1::Request SetRequest(const FileLocks::Lock& lock) {
  v1::Request request;
  *request.mutable_set_lock()->mutable_lock() = ToProto(lock);
  return request;
}

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

absl::Status LostLocks(const FileLocks::Lock& lock) {
  return ErrnoStatus(EIO, absl::StrCat("inode ", lock.inode,
                                       ": the locks of this process were lost; close the file"));
}

// ---- what is held -----------------------------------------------------------------------------

FileLocks::File* FileLocks::Find(std::uint64_t inode) {
  const auto found = files_.find(inode);
  return found == files_.end() ? nullptr : &found->second;
}

FileLocks::Owner* FileLocks::Find(const Lock& lock) {
  File* const file = Find(lock.inode);
  if (file == nullptr) return nullptr;
  for (Owner& owner : file->owners) {
    if (owner.kind == lock.kind && owner.number == lock.owner) return &owner;
  }
  return nullptr;
}

void FileLocks::Note(const Lock& lock) {
  Owner* owner = Find(lock);
  if (owner == nullptr) {
    if (lock.type == v1::LOCK_NONE) return;
    owner = &files_[lock.inode].owners.emplace_back(Owner{
        .kind = lock.kind, .number = lock.owner, .pid = lock.pid, .locks = {}, .handles = {}});
  }
  File& file = *Find(lock.inode);
  const std::uint64_t before = owner->locks.size();
  owner->locks.Set(lock.range, lock.type);
  file.locked_ranges += owner->locks.size() - before;
  if (file.token != 0) token_ranges_ += owner->locks.size() - before;
  if (lock.type != v1::LOCK_NONE && lock.kind != v1::LOCK_WRITER) {
    owner->handles.insert(lock.handle);
  }
  if (!owner->locks.empty() || owner->lost) return;
  file.owners.erase(file.owners.begin() + (owner - file.owners.data()));
  Forget(lock.inode);
}

void FileLocks::Lose(File& file) {
  std::erase_if(file.owners, [&](const Owner& owner) {  // nobody is there to be told
    return owner.kind == v1::LOCK_WRITER ? file.writers.empty() : owner.handles.empty();
  });
  for (Owner& owner : file.owners) {
    if (!owner.lost && owner.kind == v1::LOCK_WRITER) ++lost_writers_;
    owner.locks = ByteLocks();
    owner.lost = true;
  }
  if (file.token != 0) token_ranges_ -= file.locked_ranges;
  file.locked_ranges = 0;
}

void FileLocks::Forget(std::uint64_t inode) {
  const auto found = files_.find(inode);
  if (found == files_.end()) return;
  if (found->second.unused()) files_.erase(found);
}

// ---- with the controller's word ---------------------------------------------------------------

bool FileLocks::BeginCall(std::uint64_t inode) {
  MutexLock guard(mutex_);
  File& file = files_[inode];
  const bool exclusive = file.calls++ == 0 && file.token == 0;
  return exclusive && file.locked_ranges < kMaxTokenRanges && tokens_.size() < kMaxTokens &&
         !contended_.contains(inode);
}

void FileLocks::EndCall(std::uint64_t inode) {
  MutexLock guard(mutex_);
  if (File* file = Find(inode)) --file->calls;
  Forget(inode);
}

void FileLocks::OnGranted(const Lock& lock, std::uint64_t token) {
  MutexLock guard(mutex_);
  Note(lock);
  if (token != 0) Take(lock.inode, token);
}

// What the owner has had in the range before, which is still what is noted: weaker locks as they
// were, and nothing between them. (Never the whole range first: somebody waits for it.)
void FileLocks::GiveBack(const Lock& lock, std::uint64_t token) {
  std::vector<ByteLocks::LockedRange> before;
  {
    MutexLock guard(mutex_);
    if (token != 0) return PostReturn(lock.inode, token, files_[lock.inode]);
    if (const Owner* owner = Find(lock)) before = owner->locks.In(lock.range);
  }
  const auto set = [&](std::uint64_t first, std::uint64_t last, v1::LockType type) {
    Lock again = lock;
    again.range = {first, last};
    again.type = type;
    (void)BeginCall(lock.inode);
    session_->Start(SetRequest(again), [this, inode = lock.inode](
                                           const absl::StatusOr<v1::Reply>&) { EndCall(inode); });
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
  if (std::optional<absl::Status> decided = SetHere(lock, wait)) return *std::move(decided);
  if (lock.type == v1::LOCK_NONE) {
    UnlockByCall(lock, interrupt);
    return absl::OkStatus();
  }
  if (wait && waits_.fetch_add(1) >= kMaxWaits) {
    --waits_;
    return ErrnoStatus(ENOLCK, absl::StrCat(kMaxWaits, " processes wait for locks already"));
  }
  absl::Status status = SetByCall(lock, wait, interrupt);
  if (wait) --waits_;
  return status;
}

absl::Status FileLocks::SetByCall(const Lock& lock, bool wait, const Interrupt* interrupt) {
  v1::Request request = SetRequest(lock);
  const std::uint64_t number = wait ? ++last_wait_ : 0;
  request.mutable_set_lock()->set_wait(number);
  request.mutable_set_lock()->set_take(BeginCall(lock.inode));
  // Whoever comes second, the grant or the caller who gave up, takes the lock back.
  const auto one_came = std::make_shared<std::atomic<bool>>(false);
  CallOptions options;
  options.interrupt = interrupt;
  options.on_reply = [this, lock, one_came](const v1::Reply& reply) {
    if (one_came->exchange(true)) {
      if (lock.kind == v1::LOCK_WRITER) return OnLateWriter(lock, reply.lock_token());
      GiveBack(lock, reply.lock_token());
    } else {
      OnGranted(lock, reply.lock_token());
    }
  };
  const auto answered = std::make_shared<Answered>();
  options.on_done = [this, inode = lock.inode, answered](const absl::StatusOr<v1::Reply>&) {
    EndCall(inode);
    answered->Note();
  };
  absl::Status status = session_->Call(std::move(request), options).status();
  if (status.ok()) return status;
  const int error = ErrnoOf(status);
  const bool gave_up = error == EINTR || error == ETIMEDOUT;
  if (gave_up && wait) {
    v1::Request cancel;
    cancel.mutable_cancel_lock()->set_wait(number);
    session_->Post(std::move(cancel));
    // The answer comes at once now. (What is given back later may be another thread's by then.)
    for (int polls = 0; polls < kMostPolls && answered->Await(*session_); ++polls) {
    }
  }
  if (gave_up && one_came->exchange(true)) return absl::OkStatus();  // granted all the same
  return error == ESTALE ? LostLocks(lock) : status;
}

void FileLocks::Unlock(const Lock& lock, const Interrupt* interrupt) {
  if (!SetHere(lock, /*wait=*/false)) UnlockByCall(lock, interrupt);
}

// It is carried out once, whoever waits for it.
void FileLocks::UnlockByCall(const Lock& lock, const Interrupt* interrupt) {
  const auto answered = std::make_shared<Answered>();
  (void)BeginCall(lock.inode);
  session_->Start(SetRequest(lock), [this, lock, answered](const absl::StatusOr<v1::Reply>& reply) {
    if (reply.ok()) OnGranted(lock, /*token=*/0);
    EndCall(lock.inode);
    answered->Note();
  });
  while (answered->Await(*session_) && (interrupt == nullptr || !interrupt->interrupted())) {
  }
}

absl::StatusOr<std::optional<v1::FileLock>> FileLocks::Test(const Lock& lock,
                                                            const Interrupt* interrupt) {
  {
    MutexLock guard(mutex_);
    if (const Owner* owner = Find(lock); owner != nullptr && owner->lost) return LostLocks(lock);
    if (const File* file = UnderToken(lock.inode)) return ConflictIn(*file, lock);
  }
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
  DropWriter(inode, handle);
  std::vector<Lock> gone;
  {
    MutexLock guard(mutex_);
    File* const file = Find(inode);
    if (file == nullptr) return;
    for (Owner& owner : file->owners) {
      if (owner.handles.erase(handle) == 0 || !owner.handles.empty()) continue;
      owner.lost = false;
      gone.push_back(
          {.inode = inode, .kind = owner.kind, .owner = owner.number, .range = {0, kToEnd}});
    }
  }
  for (const Lock& lock : gone) Unlock(lock, interrupt);
}

// ---- session events ---------------------------------------------------------------------------

void FileLocks::Reclaim(std::vector<v1::Reclaim>& reclaims) {
  MutexLock guard(mutex_);
  for (const auto& [inode, file] : files_) {
    for (const Owner& owner : file.owners) {
      for (const ByteLocks::LockedRange& locked_range : owner.locks.All()) {
        if (reclaims.back().locks_size() >= kReclaimLocks) reclaims.emplace_back();
        *reclaims.back().add_locks() = ToProto({.inode = inode,
                                                .kind = owner.kind,
                                                .owner = owner.number,
                                                .range = locked_range.range,
                                                .type = locked_range.type,
                                                .pid = owner.pid});
      }
    }
  }
  DropTokens();
}

void FileLocks::OnEvicted() {
  MutexLock guard(mutex_);
  std::size_t lost = 0;
  for (auto& [inode, file] : files_) {
    lost += file.owners.empty() ? 0 : 1;
    Lose(file);
  }
  if (lost != 0) spdlog::error("the locks on {} files are lost with the session", lost);
  DropTokens();
  absl::erase_if(files_, [](const auto& entry) { return entry.second.unused(); });
}

void FileLocks::OnBroken(std::uint64_t inode) {
  MutexLock guard(mutex_);
  File* const file = Find(inode);
  if (file == nullptr) return;
  if (!file->owners.empty()) {
    spdlog::error("inode {}: an administrator has broken its locks", inode);
  }
  Lose(*file);
  if (file->token != 0) ReturnToken(inode, *file);
}

}  // namespace reel::client
