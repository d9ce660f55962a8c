// The bytes of frames that a player will open next, read from the LUNs before it does.
//
// Which files these are, and how much of each, client/ahead/sequence_ahead.h says. Invariants:
//   1. A chunk is handed over only while nothing has happened to the file since its reading began,
//      as one of a stream is (client/buffers/read_ahead.h).
//   2. Its reading waits for nothing but the LUNs, and takes no token from anybody: where that or
//      the extents are not there, the player reads for itself.
//   3. All chunks together take at most FileDataOptions::max_frame_bytes. They go when they have
//      been handed over, when the file is closed by all, was not used for a second or two, or has
//      changed; and when the player turns elsewhere (Drop).
//   4. At most kMaxReads chunks are on their way at a time, but kYieldingReads while a program's
//      own reads are, or bandwidth is reserved by somebody: those stand behind no more than that.
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "client/base/worker_pool.h"
#include "client/file/data_context.h"
#include "volume/base/mutex.h"

namespace reel::client {

class FrameAhead {
 public:
  static constexpr std::size_t kMaxReads = 8;
  static constexpr std::size_t kYieldingReads = 1;
  static constexpr std::size_t kMaxFiles = 64;  // that wait to be read; more are left to players

  explicit FrameAhead(DataContext& context) : context_(context), pool_(kMaxReads) {}
  void Stop() { pool_.Stop(); }

  // Begins to read the first `bytes` of the file, as far as it has so many. REQUIRES: no lock held.
  void Fetch(const FileRef& file, std::uint64_t bytes);
  // Nobody will come for it. REQUIRES: no lock held.
  static void Drop(FileState& f);

  // Copies [offset, + buffer.size()) when all of it has been, or is being, read ahead; waits for
  // the latter, unless interrupted. REQUIRES: the file is entered to read that range, which ends
  // within it.
  bool Take(FileState& f, std::uint64_t offset_bytes, std::span<std::byte> buffer,
            const Interrupt* interrupt);

  // That a program's own read is with the LUNs.
  class Demand {
   public:
    explicit Demand(FrameAhead& ahead) : ahead_(ahead) { ahead_.demands_.fetch_add(1); }
    Demand(const Demand&) = delete;
    Demand& operator=(const Demand&) = delete;
    ~Demand() {
      if (ahead_.demands_.fetch_sub(1) == 1) ahead_.GoOn();
    }

   private:
    FrameAhead& ahead_;
  };

 private:
  enum class Next : std::uint8_t { kChunk, kNoMemory, kDone };
  Next Begin(const FileRef& file, ReadChunkRef& chunk);
  std::size_t Limit() const;
  // Begins as many reads as may be on their way.
  void Pump();
  // The same, where anything waits to be read.
  void GoOn() {
    if (waiting_.load(std::memory_order_relaxed)) Pump();
  }

  DataContext& context_;
  WorkerPool pool_;
  std::atomic<std::uint32_t> demands_{0};
  std::atomic<bool> waiting_{false};  // `files_` is not empty
  Mutex mutex_;
  std::deque<FileRef> files_ ABSL_GUARDED_BY(mutex_);  // that are still to be read, in that order
  std::size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace reel::client
