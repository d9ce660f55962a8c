// Small writes that return once their bytes are in memory, and go to the LUNs later and together;
// and a stream's writes of any size where the LUNs are slow, so that several are on their way at
// once.
//
// A write is kept here under the exclusive token, with its blocks granted: it can neither conflict
// with another host nor find the volume full afterwards. Its bytes lie in FileState::memory until
// their buffer is flushed: when it is full, is old, memory runs short, or somebody has to have them
// on the LUNs (an fsync, a recall, a truncation, a large write or a read that overlaps them in
// part). What a flush has written stays known for a while, as long as the file is open and used,
// and hardly any of the memory is: whoever appends to a log, or writes a page of a database again,
// overwrites parts of blocks that need not be read then. Invariants:
//   1. Where bytes are in memory, the exclusive token is held and the extents are known and no
//      holes.
//   2. A block with dirty bytes is written on the LUNs by its flush alone: larger writes wait for
//      that, and one that is under way is waited for.
//   3. A flush goes out under the session in which the bytes were written, and its lease. With the
//      session they are lost: dropped, never written later, and told by WriteError.
//   4. What the LUNs do not take is lost likewise; what they cannot be asked to take stays.
// Threads: all methods may be called concurrently; it flushes on threads of its own, or its
// callers'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/base/worker_pool.h"
#include "client/file/data_context.h"
#include "client/luns/lun_pace.h"
#include "proto/convert.h"

namespace reel::client {

class WriteBehind {
 public:
  static constexpr ByteRange kAllBytes{0, kMaxFileBytes};

  explicit WriteBehind(DataContext& context) : context_(context), pool_(kMaxThreads) {}
  // What is in memory then stays there.
  void Stop() { pool_.Stop(); }

  // Whether a write of that many bytes is kept in memory.
  bool Takes(FileState& f, std::size_t bytes, const IoContext& io) const;
  // How long the LUNs took for a stream's write, or for a whole buffer: what decides whether larger
  // ones are kept, too.
  void NoteLunWrite(std::uint64_t bytes, std::uint64_t began_ms);
  // REQUIRES: the token is held exclusively, the extents cover the range without holes (or the file
  // would be small with it), nobody writes these blocks, and nothing of the range is in flight.
  // `stream`: it continues what was written before. True when memory runs short: the oldest should
  // go.
  bool Put(FileState& f, std::uint64_t offset_bytes, std::span<const std::byte> data, bool stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  // Begins to flush what the range has in memory since `age_ms` or longer; waits for nothing.
  void Start(FileState& f, const ByteRange& range, std::uint64_t age_ms = 0)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // All bytes of a small file, for a commit that carries them, while programs write on.
  struct Whole {
    std::string bytes;
    std::uint64_t changes = 0;         // DirtyMemory's
    std::vector<DirtyBufferRef> held;  // in flight until Land
  };
  // REQUIRES: IsSmall.
  static Whole TakeWhole(const FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // Nothing of it goes to the LUNs meanwhile: its blocks are given back. REQUIRES: nobody writes.
  static void Hold(const FileState& f, Whole& whole) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // `committed`: the controller has them. Else they are still to be sent.
  static void Land(FileState& f, Whole whole, bool committed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // A small file's content becomes dirty memory again, to be changed there. REQUIRES: it is known;
  // as for Put.
  void Unpack(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  // Waits until what the range has in memory is on the LUNs or lost, but for buffers that became
  // dirty after `through` (DirtyMemory::last_id). It is taken when it was last seen that the LUNs
  // are where all of that belongs: what was put there since may have no block. EINTR, ETIMEDOUT,
  // ESHUTDOWN: given up, it is still in memory. REQUIRES: no lock held.
  absl::Status Flush(const FileRef& file, const ByteRange& range, std::uint64_t through,
                     const Interrupt* interrupt);

 private:
  static constexpr std::size_t kMaxThreads = 8;

  struct Flight;  // a buffer on its way
  struct Learnt;  // what the LUNs hold

  void Enqueue(FileState& f, const DirtyBufferRef& dirty_buffer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // One buffer, which is not in flight. As Flush.
  absl::Status FlushBuffer(FileState& f, const DirtyBufferRef& dirty_buffer,
                           const Interrupt* interrupt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  static bool LostMeanwhile(const FileState& f, const Whole& whole)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // What memory has of a small file gets blocks, as the controller does not take it.
  absl::Status Place(FileState& f, std::uint64_t at_bytes, const Interrupt* interrupt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // One try of that: OK also where nothing is left to be done.
  absl::Status Fly(FileState& f, Flight& flight, const Interrupt* interrupt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  // The bytes that it will write and read, as locks of their blocks.
  BlockLocks LocksFor(const FileState& f, Flight& flight) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  std::uint64_t WorthKnowingTo(const FileState& f, const DirtyBuffer& dirty_buffer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  static void FillUnwritten(const FileState& f, DirtyBuffer& dirty_buffer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  absl::Status Prepare(const FileState& f, Flight& flight) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void PlanReads(const FileState& f, Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  absl::Status PlanWrites(const FileState& f, Flight& flight) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  absl::Status ReadEdges(const Flight& flight, const IoPermit& permit, Learnt& learnt);
  absl::Status ReadAround(FileState& f, Flight& flight, const IoPermit& permit);
  absl::Status WriteParts(Flight& flight, const IoPermit& permit);
  absl::Status Send(FileState& f, Flight& flight, const Interrupt* interrupt);
  void Finish(FileState& f, const Flight& flight, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

  DataContext& context_;
  WorkerPool pool_;
  mutable Mutex mutex_;
  // Short: a LUN that turns slow holds a stream up until this shows it.
  LunPace pace_ ABSL_GUARDED_BY(mutex_){/*memory_mib=*/64};
};

}  // namespace reel::client
