// File bytes ⇄ LUNs: a byte range and the extents that cover it become one batch over all LUNs.
//
// Direct I/O goes in units of the LUNs' logical block; what does not fit is carried through a
// bounce buffer of the thread's own. Invariants:
//   1. Holes and unwritten blocks read as zeros, without I/O.
//   2. An unwritten block is written whole, zero-filled around the data; of a written one only the
//      logical blocks touched are, read first where they are touched in part.
//   3. A flush covers what was answered before it began; one that fails loses all until its end.
//   4. A LUN goes by the number that LunPaths gives it, which outlives every map.
//   5. Requests go out on paths that stand, under a session whose lease holds
//   (client/luns/lun_paths.h);
//      what a lost path or a reset ended is done again there.
// Errors are EIO and name LUN and offset, and those of LunPaths::Enter. Threads: all methods may be
// called concurrently; the caller keeps writers of one logical block apart.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "client/base/worker_pool.h"
#include "client/luns/bandwidth_gate.h"
#include "client/luns/lun_paths.h"
#include "volume/base/mutex.h"
#include "volume/format/extent_map.h"
#include "volume/format/lun_scan.h"
#include "volume/format/stripe_map.h"
#include "volume/lun/io_batch.h"

namespace reel::client {

// Most requests lie in one extent.
using ExtentList = absl::InlinedVector<Extent, 4>;

// A LUN that was written to, and when in its history: the first and the last of some writes.
struct LunMark {
  std::uint32_t lun = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};
using LunMarks = absl::InlinedVector<LunMark, 4>;
void MergeMarks(const LunMarks& from, LunMarks& into);

class LunIo {
 public:
  // All of them outlive this object. `gate`: what requests wait for before they go out; may be
  // null.
  LunIo(OpenVolume& volume, LunPaths& paths, BandwidthGate* gate = nullptr);

  // From now on by this map, whose LUNs `paths` knows; requests under way go on by the one before,
  // which says the same of all blocks that it has. `volume` outlives this object.
  void TakeMap(const OpenVolume& volume);

  std::uint32_t block_bytes() const { return block_bytes_; }
  // The alignment of I/O: the largest logical block of the volume's LUNs.
  std::uint32_t unit_bytes() const { return unit_bytes_; }

  // Fills buffer[0, length). `buffer` is aligned, and larger than `length` at least up to the unit.
  // REQUIRES: `extents` cover the range, in order.
  absl::Status Read(std::span<const Extent> extents, std::uint64_t offset_bytes,
                    std::uint64_t length_bytes, std::span<std::byte> buffer,
                    const IoPermit& permit);
  // REQUIRES: `extents` cover the range, in order, without holes.
  absl::Status Write(std::span<const Extent> extents, std::uint64_t offset_bytes,
                     std::span<const std::byte> data, LunMarks& marks, const IoPermit& permit);
  // [from, to) of the file in whole units (of unwritten blocks that are written: whole blocks),
  // memory[0] being byte `from`, and aligned.
  struct Range {
    std::span<const Extent> extents;
    std::uint64_t from_bytes = 0;
    std::uint64_t to_bytes = 0;
    std::byte* memory = nullptr;
  };
  // As Read and Write, of several ranges at once; nothing is copied.
  absl::Status ReadUnits(std::span<const Range> ranges, const IoPermit& permit);
  absl::Status WriteUnits(std::span<const Range> ranges, LunMarks& marks, const IoPermit& permit);
  // Of that many bytes of an extent, how many lie together on the LUN of the first. REQUIRES: the
  // first lies in the extent.
  std::uint64_t OnOneLun(const Extent& extent, std::uint64_t offset_bytes,
                         std::uint64_t length_bytes) const;
  // Makes what the marks stand for durable; LUNs that were flushed since then are passed over. The
  // first error, after all were tried. What a failed flush should have made durable counts as lost
  // for good, also when a later flush succeeds. EINTR: given up, nothing is lost.
  absl::Status Flush(const LunMarks& marks, const Interrupt* interrupt);
  // Leaves those that a flush has still to stand for. True: another one stood for nothing.
  bool Prune(LunMarks& marks) const;

 private:
  static constexpr std::size_t kFlushThreads = 16;
  static constexpr std::size_t kMaxLost = 16;
  struct LostWrites {
    std::uint64_t after, through;
  };
  struct Flusher {
    // REQUIRES: `mutex` is held.
    bool Lost(const LunMark& mark) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    void NoteLost(std::uint64_t covers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    mutable Mutex mutex;
    CondVar done;
    bool running ABSL_GUARDED_BY(mutex) = false;
    // Writes that were not made durable when they should have been, in order.
    std::vector<LostWrites> lost ABSL_GUARDED_BY(mutex);
    std::atomic<std::uint64_t> writes{0};   // completed
    std::atomic<std::uint64_t> flushed{0};  // those are durable
  };
  // What several threads flush together for one that asks.
  struct FlushOfMany {
    LunMarks marks;
    Mutex mutex;
    CondVar changed;
    std::vector<absl::Status> outcomes ABSL_GUARDED_BY(mutex);
    std::size_t begun ABSL_GUARDED_BY(mutex) = 0;
    std::size_t done ABSL_GUARDED_BY(mutex) = 0;
  };
  absl::Status Transfer(LunRequest::Kind kind, std::span<const Range> ranges, LunMarks* marks,
                        const IoPermit& permit);
  void NoteTimes(const IoBatch& batch, const LunPaths::LunList& luns, bool writes);
  // What of a batch goes to one LUN.
  struct Share {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
    std::uint64_t runs = 0;  // of requests that follow each other there: one to a disk
    std::uint64_t end_bytes = 0;
  };
  using Shares = absl::InlinedVector<Share, 4>;
  // Adds to the batch, to the list of its LUNs, and to what goes to each of these.
  absl::Status Gather(const StripeMap& stripes, LunRequest::Kind kind, const Range& range,
                      IoBatch& batch, LunPaths::LunList& luns, Shares& shares) const;
  // The same of all; a layout that lies beyond the map waits for a later one.
  absl::Status GatherAll(LunRequest::Kind kind, std::span<const Range> ranges,
                         const IoPermit& permit, IoBatch& batch, LunPaths::LunList& luns,
                         Shares& shares) const;
  // Nothing that the mark stands for has yet to be flushed, or was lost.
  bool IsFlushed(const LunMark& mark) const;
  absl::Status FlushOne(const LunMark& mark, const Interrupt* interrupt);
  absl::Status FlushLun(std::uint32_t lun, const Interrupt* interrupt);

  struct Map {
    std::uint64_t generation;
    StripeMap stripes;
    std::vector<LunSetId> sets;  // by LUN
  };
  // What goes to each LUN set.
  BandwidthGate::Loads LoadsOf(const LunPaths::LunList& luns, const Shares& shares) const;
  LunPaths& paths_;
  BandwidthGate* const gate_;
  std::uint32_t block_bytes_ = 0;
  std::uint32_t unit_bytes_ = 512;
  Mutex maps_mutex_;                                                           // of TakeMap
  std::vector<std::unique_ptr<const Map>> maps_ ABSL_GUARDED_BY(maps_mutex_);  // the last is …
  std::atomic<const Map*> map_{nullptr};                                       // … in force
  // By LUN. There is room for all that a volume may have.
  std::vector<std::unique_ptr<Flusher>> flushers_;
  WorkerPool flush_pool_{kFlushThreads};
};

}  // namespace reel::client
