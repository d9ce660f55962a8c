// Locks that are decided here, under a lock token, and how tokens come and go.
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/locks/file_locks.h"
#include "proto/status.h"

namespace reel::client {

// ---- deciding ---------------------------------------------------------------------------------

FileLocks::File* FileLocks::UnderToken(std::uint64_t inode) {
  File* const file = Find(inode);
  if (file == nullptr || file->token == 0) return nullptr;
  if (!session_->LeaseHolds()) {  // the controller may have given all to others
    ReturnToken(inode, *file);
    return nullptr;
  }
  file->used_renewals = renewals_;
  return file;
}

std::optional<v1::FileLock> FileLocks::ConflictIn(const File& file, const Lock& lock) {
  for (const Owner& owner : file.owners) {
    if (owner.kind != lock.kind || owner.number == lock.owner) continue;
    if (const auto locked_range = owner.locks.Conflict(lock.range, lock.type)) {
      return ToProto(Lock{.inode = lock.inode,
                          .kind = owner.kind,
                          .owner = owner.number,
                          .range = locked_range->range,
                          .type = locked_range->type,
                          .pid = owner.pid});
    }
  }
  return std::nullopt;
}

std::optional<absl::Status> FileLocks::SetHere(const Lock& lock, bool wait) {
  MutexLock guard(mutex_);
  if (const Owner* owner = Find(lock); owner != nullptr && owner->lost) return LostLocks(lock);
  if (lock.type == v1::LOCK_NONE) {
    // However the lease is: it keeps nobody out.
    const File* const file = Find(lock.inode);
    if (file == nullptr || file->token == 0) return std::nullopt;
    Note(lock);
    // It may have split one.
    if (File* left = Find(lock.inode); left != nullptr && left->locked_ranges >= kMaxTokenRanges) {
      contended_[lock.inode] = renewals_ + kIdleRenewals;
      ReturnToken(lock.inode, *left);
    }
    return absl::OkStatus();
  }
  File* const file = UnderToken(lock.inode);
  if (file == nullptr) return std::nullopt;
  const bool conflict = ConflictIn(*file, lock).has_value();
  if (conflict && !wait) return ErrnoStatus(EAGAIN);
  // The controller sees all waits, and so every ring of them.
  if (conflict || file->locked_ranges >= kMaxTokenRanges) {
    contended_[lock.inode] = renewals_ + kIdleRenewals;
    ReturnToken(lock.inode, *file);
    return std::nullopt;
  }
  if (token_ranges_ >= kMaxLockedRanges) {
    return ErrnoStatus(ENOLCK, absl::StrCat("this host holds ", kMaxLockedRanges, " locks"));
  }
  Note(lock);
  return absl::OkStatus();
}

// ---- tokens -----------------------------------------------------------------------------------

void FileLocks::Take(std::uint64_t inode, std::uint64_t token) {
  File& file = files_[inode];
  file.token = token;
  file.used_renewals = renewals_;
  token_ranges_ += file.locked_ranges;
  tokens_.insert(inode);
}

// Sent under the mutex: an answer to a recall that says less must not overtake it. It is sent again
// when the stream is lost, as it alone knows what has changed.
void FileLocks::PostReturn(std::uint64_t inode, std::uint64_t token, const File& file) {
  v1::Request request;
  v1::LockReturn& back = *request.mutable_lock_return();
  back.set_inode(inode);
  back.set_token(token);
  for (const Owner& owner : file.owners) {
    for (const ByteLocks::LockedRange& locked_range : owner.locks.All()) {
      *back.add_locks() = ToProto(Lock{.inode = inode,
                                       .kind = owner.kind,
                                       .owner = owner.number,
                                       .range = locked_range.range,
                                       .type = locked_range.type,
                                       .pid = owner.pid});
    }
  }
  session_->Start(std::move(request), [](const absl::StatusOr<v1::Reply>&) {});
}

void FileLocks::ReturnToken(std::uint64_t inode, File& file) {
  PostReturn(inode, file.token, file);
  token_ranges_ -= file.locked_ranges;
  file.token = 0;
  tokens_.erase(inode);
  Forget(inode);
}

void FileLocks::DropTokens() {
  token_ranges_ = 0;
  for (const std::uint64_t inode : std::exchange(tokens_, {})) {
    files_[inode].token = 0;
    Forget(inode);
  }
}

void FileLocks::OnRecall(std::uint64_t inode, std::uint64_t token, bool contended) {
  MutexLock guard(mutex_);
  if (contended) contended_[inode] = renewals_ + kIdleRenewals;
  File* const file = Find(inode);
  if (file != nullptr && file->token == token) return ReturnToken(inode, *file);
  v1::Request request;
  request.mutable_lock_return()->set_inode(inode);
  request.mutable_lock_return()->set_token(token);
  request.mutable_lock_return()->set_unknown(true);
  session_->Post(std::move(request));
}

void FileLocks::OnRenewed() {
  MutexLock guard(mutex_);
  const std::uint64_t now = ++renewals_;
  absl::erase_if(contended_, [now](const auto& entry) { return entry.second <= now; });
  std::vector<std::uint64_t> idle;
  for (const std::uint64_t inode : tokens_) {
    const File& file = files_[inode];
    if (file.owners.empty() && file.used_renewals + kIdleRenewals <= now) {
      idle.push_back(inode);
    }
  }
  for (const std::uint64_t inode : idle) ReturnToken(inode, files_[inode]);
}

}  // namespace reel::client
