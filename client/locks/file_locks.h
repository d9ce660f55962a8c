// The advisory locks of this host's processes.
//
// The controller keeps them for all hosts; but while this one alone uses locks of an inode it holds
// the inode's *lock token*, and decides by itself: then a lock, unlock or test is no call. The
// token goes back, with all that is held, when the controller recalls it, when a process would have
// to wait, and when it has not been used for a while. Without it each is a call. What is held is
// kept here in either case, so that it can be claimed again in a new epoch and let go when its
// owner closes the file. The kernel names an owner by a number: a process's table of open files for
// fcntl(2) ranges, the open file itself for those by open file description and for flock(2). It
// says when a process closes (Flush), but not when the last user of an open file does; so the
// handle that each lock came through is remembered. Invariants:
//   1. What is noted here is what the controller has answered, and what was decided under the token
//   since: replies are taken in on the receiving thread, in order.
//   2. A lock that is granted after its caller gave up waiting is given back at once.
//   3. An owner whose locks were lost (eviction, an administrator) gets EIO until it has closed the
//      file: it acted on a promise that no longer holds.
//   4. A token is asked for with a call only while no other call about the inode is unanswered; one
//   that follows it is answered after the token has been recalled.
//   5. Nobody gets a lock under a token when the lease is over, and nobody waits under one.
//   6. A host is the writer of a single writer's file by a lock as well, held by all its open files
//      together.
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "proto/byte_locks.h"
#include "volume/base/mutex.h"

namespace reel::client {

class FileLocks {
 public:
  // Once, before anything is locked; outlives this object's use.
  void Start(Session& session) { session_ = &session; }

  // What fcntl(2) calls "to the end of the file".
  static constexpr std::uint64_t kToEnd = (std::uint64_t{1} << 63) - 1;
  // Waits at once, each of which holds a thread of the mount.
  static constexpr std::uint32_t kMaxWaits = 256;
  // Pieces under all tokens, as the controller has it for a session; and under one, all of which go
  // back in one message.
  static constexpr std::uint64_t kMaxLockedRanges = 1 << 20;
  static constexpr std::uint64_t kMaxTokenRanges = 4'096;
  static constexpr std::size_t kMaxTokens = 4'096;
  // Renewals of the lease, some seconds each: a token that is unused for so many goes back, and one
  // that others wanted is not asked for again before as many.
  static constexpr std::uint64_t kIdleRenewals = 2;

  struct Lock {
    std::uint64_t inode = 0;
    v1::LockKind kind = v1::LOCK_RANGES;
    std::uint64_t owner = 0;
    std::uint64_t handle = 0;  // the open file that it came through
    LockRange range;           // bytes
    v1::LockType type = v1::LOCK_NONE;
    std::uint32_t pid = 0;
  };

  // A number for an open file.
  std::uint64_t NewHandle() { return ++last_handle_; }

  // EAGAIN: another owner is in the way, and `wait` is false. EDEADLK, ENOLCK; EINTR: given up
  // waiting; EIO: the owner's locks were lost.
  absl::Status Set(const Lock& lock, bool wait, const Interrupt* interrupt);
  // This host, through that open file, writes a file of a single writer. EBUSY: another one does.
  absl::Status BecomeWriter(std::uint64_t inode, std::uint64_t handle, std::uint32_t pid,
                            const Interrupt* interrupt);
  // EIO: it was taken from this host (eviction, an administrator), whose files are still open.
  absl::Status CheckWriter(std::uint64_t inode);
  // A lock that is in the way, if there is one.
  absl::StatusOr<std::optional<v1::FileLock>> Test(const Lock& lock, const Interrupt* interrupt);
  // A process closes the file: its ranges go (close(2) waits for that while a controller answers).
  void Flush(std::uint64_t inode, std::uint64_t owner, const Interrupt* interrupt);
  // Nobody uses the open file any more.
  void Release(std::uint64_t inode, std::uint64_t handle, const Interrupt* interrupt);

  // On the receiving thread: session events.
  void Reclaim(std::vector<v1::Reclaim>& reclaims);  // in a new epoch no token is held
  void OnEvicted();
  void OnBroken(std::uint64_t inode);
  void OnRecall(std::uint64_t inode, std::uint64_t token, bool contended);
  // The lease was renewed.
  void OnRenewed();

 private:
  struct Owner {
    v1::LockKind kind;
    std::uint64_t number;
    std::uint32_t pid;
    ByteLocks locks;
    std::set<std::uint64_t> handles;
    bool lost = false;
  };
  struct File {
    std::vector<Owner> owners;
    std::uint64_t locked_ranges = 0;
    std::uint64_t token = 0;           // 0: the controller decides
    std::uint64_t used_renewals = 0;   // when the token was used last
    std::uint32_t calls = 0;           // unanswered ones that lock or unlock
    std::set<std::uint64_t> writers;   // handles that are, or want to be, a single writer's
    std::uint32_t writer_unlocks = 0;  // unanswered ones of the host's lock as the writer
    bool unused() const { return owners.empty() && token == 0 && calls == 0 && writers.empty(); }
  };
  using Files = absl::flat_hash_map<std::uint64_t, File>;

  // file_locks.cc: with the controller's word
  absl::Status SetByCall(const Lock& lock, bool wait, const Interrupt* interrupt);
  void UnlockByCall(const Lock& lock, const Interrupt* interrupt);
  // Counts a call that is about to be sent; whether it may ask for the token.
  bool BeginCall(std::uint64_t inode) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndCall(std::uint64_t inode) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnGranted(const Lock& lock, std::uint64_t token) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(const Lock& lock, std::uint64_t token) ABSL_LOCKS_EXCLUDED(mutex_);
  void Unlock(const Lock& lock, const Interrupt* interrupt);
  File* Find(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Owner* Find(const Lock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const Lock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where nothing is left to remember of it.
  void Forget(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // file_locks_writer.cc: this host as a file's single writer
  void DropWriter(std::uint64_t inode, std::uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  void UnlockUnwanted(std::uint64_t inode) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLateWriter(const Lock& lock, std::uint64_t token) ABSL_LOCKS_EXCLUDED(mutex_);

  // file_locks_token.cc: under the token; nullopt: the controller has to be asked
  std::optional<absl::Status> SetHere(const Lock& lock, bool wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // The file, where its token is held and may be used.
  File* UnderToken(std::uint64_t inode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::optional<v1::FileLock> ConflictIn(const File& file, const Lock& lock);
  void Take(std::uint64_t inode, std::uint64_t token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnToken(std::uint64_t inode, File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The answer that tells the controller what is held, whether the token is known here or not.
  void PostReturn(std::uint64_t inode, std::uint64_t token, const File& file)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Session* session_ = nullptr;
  mutable Mutex mutex_;
  CondVar writer_unlocked_;
  Files files_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t token_ranges_ ABSL_GUARDED_BY(mutex_) = 0;             // of the files with a token
  absl::flat_hash_set<std::uint64_t> tokens_ ABSL_GUARDED_BY(mutex_);  // the inodes
  // Inodes whose tokens are not asked for, until so many renewals.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> contended_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t renewals_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> last_handle_{0};
  std::atomic<std::uint64_t> last_wait_{0};
  std::atomic<std::uint32_t> waits_{0};
  std::atomic<std::uint32_t> lost_writers_{0};  // files; the common answer without a mutex
};

// The request that sets it.
v1::Request SetRequest(const FileLocks::Lock& lock);
// As a message; of the range that is said there.
v1::FileLock ToProto(const FileLocks::Lock& lock);
// What an owner gets whose locks were lost.
absl::Status LostLocks(const FileLocks::Lock& lock);

}  // namespace reel::client
