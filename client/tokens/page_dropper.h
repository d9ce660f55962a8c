// Makes the kernel drop pages of files: before a token goes back, and after one was lost.
//
// Invariants:
//   1. Whoever loses a token without its recall says so here (LoseToken), in the same turn of the
//      file's mutex: the kernel's pages are stale from then on, and what is written back from them
//      is lost. Under a later token they would go whole over what others have written since.
// Threads: all methods may be called concurrently; the kernel is waited for on threads of its own.
#pragma once

#include "client/base/byte_range.h"
#include "client/base/worker_pool.h"
#include "client/file/data_context.h"

namespace reel::client {

class PageDropper {
 public:
  static constexpr std::size_t kMaxThreads = 32;

  explicit PageDropper(DataContext& context) : context_(context), stale_(kMaxThreads) {}

  // The kernel writes dirty pages back before it drops them. True: none of the range is held any
  // more. REQUIRES: no lock; nobody who holds a page waits for the caller.
  bool Drop(FileState& f, const ByteRange& range);
  // The file's token is lost. Its pages are dropped soon; returns at once.
  void LoseToken(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Stop() { stale_.Stop(); }

 private:
  DataContext& context_;
  WorkerPool stale_;  // nobody waits for it
};

}  // namespace reel::client
