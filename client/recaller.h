// Gives tokens back: when the controller recalls them, and when they have not been used for long.
//
// In order: direct requests wait; the kernel's pages are invalidated, by a thread that holds no
// lock; page-cache requests wait too; what is in flight ends; dirty metadata is committed;
// LayoutReturn. Invariants:
//   1. Page-cache requests go on under the old token while pages are invalidated, as the kernel
//   waits
//      for them then. One that the old token does not allow ends that waiting (Bypass): the token
//      is returned first, and the invalidation finishes after the request has got a new one.
//   2. From the moment nobody uses the token any more to the reply to LayoutReturn no grant is
//   taken in:
//      the controller made it before it saw the return.
//   3. Each recall is answered, also of a token that is not here any more.
// Threads: all methods may be called concurrently; the work runs on threads of its own.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client/committer.h"
#include "client/data_context.h"
#include "client/worker_pool.h"

namespace reel::client {

class Recaller {
 public:
  Recaller(DataContext& context, Committer& committer)
      : context_(context),
        committer_(committer),
        pool_(kMaxThreads),
        bypasses_(kMaxThreads),
        stale_(kMaxThreads) {}

  // Lowers the token as recalled, or further. Returns at once.
  void Recall(FileState& f, const FileState::Recalled& recalled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // A page-cache request waits that the old token does not allow.
  void Bypass(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // Drops the kernel's pages of a file whose token was lost.
  void Invalidate(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Stop() {
    pool_.Stop();
    bypasses_.Stop();
    stale_.Stop();
  }

 private:
  static constexpr std::size_t kMaxThreads = 32;

  void Drain(const FileRef& file, std::uint64_t cycle);
  void InvalidateAndReturn(const FileRef& file, std::uint64_t cycle);
  // Has told the controller what the part of the token that is recalled covers. False: the recall
  // is void.
  bool Commit(FileState& f, std::uint64_t cycle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // Lowers the token, for which all that it still has to tell is committed: the message to send.
  // Nothing when the recall is void.
  std::optional<v1::Request> Yield(const FileRef& file, std::uint64_t cycle,
                                   std::uint64_t& session);
  void Return(const FileRef& file, std::uint64_t cycle);
  void Returned(const FileRef& file, std::uint64_t cycle, const absl::Status& status);

  DataContext& context_;
  Committer& committer_;
  // Of these, those that were bypassed do not count: they may wait for another host.
  WorkerPool pool_;
  // Those that invalidate may all be waiting for pages that are locked until one of these is done.
  WorkerPool bypasses_;
  WorkerPool stale_;  // drops pages of lost sessions; nobody waits for that
  Mutex mutex_;
  // Inodes and cycles whose invalidation goes on behind the return of the token.
  absl::flat_hash_set<std::pair<std::uint64_t, std::uint64_t>> bypassed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
