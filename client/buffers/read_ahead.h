// What a stream of reads will want next, read from the LUNs before it asks.
//
// A program that reads a file from front to back with plain read(2) has one request on its way at a
// time; this keeps several. Chunks of FileDataOptions::read_chunk_bytes are read under the token
// that the file has, as any read is, and handed over by a copy. Invariants:
//   1. A chunk is handed over only while nothing has happened to the file since its reading began
//      (ReadAheadChunks::NoteChange): no write here, no part of the token given back, no lost
//      session. So whoever takes from it sees what a read of the LUNs would have shown.
//   2. Its reading waits for nothing but the LUNs: where the token or the extents are not there,
//      the stream reads for itself.
//   3. All chunks together take at most FileDataOptions::max_read_ahead_bytes, one file's at most
//      ReadAheadChunks::kMaxChunks. They go when the file is closed by all, was not used for a
//      second or two, or has changed.
// It is used only where the LUNs are slow enough for it to pay: on the fastest ones a copy costs
// more than the wait. Threads: all methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "client/base/worker_pool.h"
#include "client/file/data_context.h"
#include "client/luns/lun_pace.h"

namespace reel::client {

class ReadAhead {
 public:
  explicit ReadAhead(DataContext& context)
      : context_(context), pool_(ReadAheadChunks::kMaxChunks) {}
  void Stop() { pool_.Stop(); }

  // Copies [offset, + buffer.size()) when all of it has been, or is being, read ahead; waits for
  // the latter, unless interrupted. REQUIRES: the file is entered to read that range, which ends
  // within it.
  bool Take(FileState& f, std::uint64_t offset_bytes, std::span<std::byte> buffer,
            const Interrupt* interrupt);
  // A stream has come to `at_bytes`, by a read of so many: begins to read what follows.
  void Continue(const FileRef& file, std::uint64_t at_bytes, std::uint64_t read_bytes);
  // How long a stream's read of the LUNs took: what decides whether reading ahead pays.
  void NoteLunRead(std::uint64_t bytes, std::uint64_t began_ms);

 private:
  bool IsWorthwhile() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A chunk at `offset`, entered and with its extents; null where it cannot be read now.
  ReadChunkRef Begin(FileState& f, std::uint64_t offset_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Read(const FileRef& file, const ReadChunkRef& chunk);

  DataContext& context_;
  WorkerPool pool_;
  mutable Mutex mutex_;
  LunPace pace_ ABSL_GUARDED_BY(mutex_){/*memory_mib=*/256};
};

}  // namespace reel::client
