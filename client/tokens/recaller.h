// Gives tokens back: when the controller recalls them, and when they have not been used for long.
//
// In order: direct requests wait; the kernel's pages are dropped, by a thread that holds no lock;
// page-cache requests wait too; what is in flight ends; dirty metadata is committed;
// LayoutReturn. Invariants:
//   1. The token goes back when no page is held any more: one that were changed later would be
//      written back whole, over what others have written since. Page-cache requests for what is
//      still held go on under the old token, as the kernel may wait for them to drop it; all others
//      wait, so what is dropped stays so. One that the old token does not allow ends that (Bypass):
//      the token is returned first, and the pages are dropped after the request has got a new one.
//      (No page is dirty then, nor can it become so: that takes the whole file exclusively.)
//   2. From the moment nobody uses the token any more to the reply to LayoutReturn no grant is
//   taken in:
//      the controller made it before it saw the return.
//   3. Each recall is answered, also of a token that is not here any more.
// Threads: all methods may be called concurrently; the work runs on threads of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client/base/worker_pool.h"
#include "client/file/data_context.h"
#include "client/tokens/committer.h"
#include "client/tokens/page_dropper.h"

namespace reel::client {

class Recaller {
 public:
  Recaller(DataContext& context, Committer& committer, PageDropper& dropper)
      : context_(context),
        committer_(committer),
        dropper_(dropper),
        pool_(kMaxThreads),
        bypasses_(kMaxThreads),
        drops_(kMaxThreads) {}

  // Lowers the token as recalled, or further. Returns at once.
  void Recall(FileState& f, const RecallProgress::Recalled& recalled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // Returns when the kernel holds no page of the range; it may fill them again at once. EINTR,
  // ETIMEDOUT, ESHUTDOWN: the caller gave up. REQUIRES: nothing entered.
  absl::Status DropPages(const FileRef& file, const ByteRange& range, const Interrupt* interrupt);
  // A page-cache request waits that the old token does not allow.
  void Bypass(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Stop() {
    pool_.Stop();
    bypasses_.Stop();
    drops_.Stop();
  }

 private:
  static constexpr std::size_t kMaxThreads = PageDropper::kMaxThreads;

  void Drain(const FileRef& file, std::uint64_t cycle);
  // Drops the pages and returns the token.
  void DropAndReturn(const FileRef& file, std::uint64_t cycle);
  // Has told the controller what the part of the token that is recalled covers. False: the recall
  // is void.
  bool Commit(FileState& f, std::uint64_t cycle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // Lowers the token, for which all that it still has to tell is committed: the message to send.
  // Nothing when the recall is void.
  std::optional<v1::Request> Yield(const FileRef& file, std::uint64_t cycle,
                                   std::uint64_t& session);
  // Drops pages until none is held, and then lets page-cache requests wait, too. False: the recall
  // was overtaken.
  bool DropAll(FileState& f, std::uint64_t cycle);
  // Waits for what is in flight, and sends the token back, when no page is held; in a Bypass, when
  // none was filled beyond the first `clean_fills`, of which none was changed. False: pages were
  // filled meanwhile, and have to be dropped first.
  bool Return(const FileRef& file, std::uint64_t cycle, std::optional<std::uint64_t> clean_fills);
  void Returned(const FileRef& file, std::uint64_t cycle, const absl::Status& status);

  DataContext& context_;
  Committer& committer_;
  PageDropper& dropper_;
  // Of these, those that were bypassed do not count: they may wait for another host.
  WorkerPool pool_;
  // Those that invalidate may all be waiting for pages that are locked until one of these is done.
  WorkerPool bypasses_;
  // Those of writers: they wait for write-back, which waits for nobody's drop.
  WorkerPool drops_;
  Mutex mutex_;
  // Inodes and cycles whose pages are dropped behind the return of the token.
  absl::flat_hash_set<std::pair<std::uint64_t, std::uint64_t>> bypassed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
