// Bytes of a file that are in memory only: written by a program, and not yet on the LUNs.
//
// They lie in buffers of the file, aligned to their own size; each knows which of its bytes are
// dirty. A buffer goes to the LUNs as a whole, by client/buffers/write_behind.h. It may stay for a
// while then, clean: what it *knows* need not be read to be overwritten in part, as a log's last
// block is. Invariants:
//   1. The dirty ranges of a buffer are disjoint, sorted, and do not touch; so are the known ones,
//      of which they are part.
//   2. What is known and clean is what the LUNs hold. Its owner makes it forget what changes there.
//   3. Nothing is put into a buffer that is in flight, but what its flight reads around it: its
//      bytes are the LUNs' business.
//   4. Every buffer counts in the budget with the pages that it has touched: all of them, where
//      its memory was used before.
// Threads: a file's memory under the file's mutex; the bytes of a buffer in flight are read without
// it. A MemoryBudget's methods may be called concurrently.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "client/base/byte_range.h"
#include "volume/base/buffer_pool.h"
#include "volume/base/mutex.h"

namespace reel::client {

// The memory that buffers of all files take together. The limit is where writers begin to wait: a
// request of each of them may come on top.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::uint64_t limit_bytes() const { return limit_bytes_.load(); }
  std::uint64_t used_bytes() const { return used_bytes_.load(); }
  // A smaller one is kept as memory is given back.
  void SetLimit(std::uint64_t limit_bytes);
  // Under a limit of 0 nobody is to wait: it was set while a last writer was on its way in.
  bool has_room() const {
    const std::uint64_t limit_bytes = limit_bytes_.load();
    return limit_bytes == 0 || used_bytes_.load() < limit_bytes;
  }
  bool half_used() const { return used_bytes_.load() > limit_bytes_ / 2; }
  bool hardly_used() const { return used_bytes_.load() <= limit_bytes_ / 8; }
  // True when with it half of the limit is passed.
  bool Take(std::uint64_t bytes);
  void Give(std::uint64_t bytes);
  // False: there was still no room after `limit`.
  bool AwaitRoom(std::chrono::milliseconds limit);

 private:
  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
  Mutex mutex_;
  CondVar given_;
};

// Memory of buffers that are gone, for the next ones: some, of which few pages were touched, and
// which those were. (A buffer of a small file touches the same ones as the last.)
// Threads: all methods may be called concurrently.
class SpareMemory {
 public:
  struct Slab {
    PooledBuffer buffer;
    std::vector<bool> touched;  // by page of the buffer
    std::uint64_t touched_bytes = 0;
  };
  // New memory where none of that size is spare. Its contents are undefined.
  Slab Take(std::size_t size_bytes);
  void Give(Slab slab);

 private:
  static constexpr std::size_t kMaxSlabs = 16;
  static constexpr std::uint64_t kMostTouchedBytes = 64 << 10;

  Mutex mutex_;
  std::vector<Slab> slabs_ ABSL_GUARDED_BY(mutex_);
};

struct DirtyBuffer {
  DirtyBuffer(MemoryBudget& all_memory, SpareMemory& goes_to, std::uint64_t offset,
              SpareMemory::Slab slab)
      : budget(all_memory), spare(goes_to), offset_bytes(offset), memory(std::move(slab)) {}
  ~DirtyBuffer() {
    budget.Give(held_bytes());
    spare.Give(std::move(memory));
  }
  DirtyBuffer(const DirtyBuffer&) = delete;
  DirtyBuffer& operator=(const DirtyBuffer&) = delete;

  MemoryBudget& budget;
  SpareMemory& spare;
  const std::uint64_t offset_bytes;  // in the file, of the memory's first byte
  SpareMemory::Slab memory;
  std::vector<ByteRange> ranges;  // dirty, in bytes of the file
  std::vector<ByteRange> known;   // as a read would return them
  std::uint64_t id = 0;           // grows from buffer to buffer of a file that becomes dirty
  std::uint64_t since_ms = 0;     // when it became dirty
  bool queued = false;            // for a thread that will flush it
  bool in_flight = false;         // to the LUNs, or held by a commit that takes it
  bool to_luns = false;           // the former
  bool gone = false;              // from its file
  std::uint64_t landing_in = 0;   // the session, as DirtyMemory counts them, from which it went so

  std::uint64_t end_bytes() const { return offset_bytes + memory.buffer.size(); }
  std::uint64_t held_bytes() const { return memory.touched_bytes; }  // in the budget
  bool dirty() const { return !ranges.empty(); }
  // REQUIRES: dirty.
  bool whole() const {
    return ranges.front().from == offset_bytes && ranges.front().to == end_bytes();
  }
  std::span<const std::byte> BytesOf(const ByteRange& range) const {
    return memory.buffer.span().subspan(range.from - offset_bytes, range.to - range.from);
  }
  // Some of the range is dirty.
  bool Overlaps(const ByteRange& range) const;
  bool Knows(const ByteRange& range) const;
  // What is clean in the range becomes dirty, and zero. REQUIRES: the range lies in the buffer.
  void FillWithZeros(const ByteRange& range);
  // What is not known in the range is, from `bytes`, which the LUNs hold there. REQUIRES: as above.
  void Learn(const ByteRange& range, const std::byte* bytes);
  // The range is dirty from now on, and known. True when the budget's half is passed with it.
  bool Add(const ByteRange& range);

 private:
  bool Touch(const ByteRange& range);
};
using DirtyBufferRef = std::shared_ptr<DirtyBuffer>;

class DirtyMemory {
 public:
  // Nothing is dirty.
  bool empty() const { return dirty_buffers_ == 0; }
  std::uint64_t last_id() const { return last_id_; }
  std::uint64_t changes() const { return changes_; }  // counts those of what is dirty
  std::uint64_t bytes() const;                        // dirty ones

  // Some byte of the range is in memory only.
  bool Overlaps(const ByteRange& range) const;
  // A buffer that the range reaches into is on its way to the LUNs.
  bool InFlight(const ByteRange& range) const;
  // All of the range is known.
  bool Covers(const ByteRange& range) const;
  // REQUIRES: it covers the range.
  void Read(const ByteRange& range, std::byte* to) const;

  struct Place {
    MemoryBudget& budget;
    SpareMemory& spare;
    BufferPool& buffers;                 // for buffers of their size that are filled
    std::size_t dirty_buffer_bytes = 0;  // the same for all of a file's
    bool fills = false;                  // all of a buffer will be touched soon
    std::uint64_t now_ms = 0;
  };
  struct Kept {
    bool crowded = false;               // half of the budget is used up
    std::vector<DirtyBufferRef> whole;  // buffers without a clean byte
  };
  // REQUIRES: nothing there is in flight.
  Kept Put(std::uint64_t offset_bytes, std::span<const std::byte> data, const Place& place);

  // Those with a dirty byte in the range.
  std::vector<DirtyBufferRef> BuffersIn(const ByteRange& range) const;
  void Remove(DirtyBuffer& dirty_buffer);
  // Of what is dirty there, all is on the LUNs: it stays, and what has stayed longest may go.
  // REQUIRES: nothing of it is in flight.
  void Keep(DirtyBuffer& dirty_buffer);
  // Forgets what is known and clean in all buffers that the range reaches into.
  void Forget(const ByteRange& range);
  void ForgetAll() { Forget({0, UINT64_MAX}); }
  // Around its way to the LUNs. REQUIRES: it is not gone when that begins.
  static void BeginFlight(DirtyBuffer& dirty_buffer);
  void EndFlight(DirtyBuffer& dirty_buffer);
  // So many that are gone are still on their way there: their bytes may yet land, in blocks that
  // the file had when they were sent.
  std::size_t landing() const { return landing_; }
  // As Clear; the session is lost, and what lands yet the fence keeps from others.
  void Void();
  std::uint64_t forgotten() const { return forgotten_; }  // counts those
  void Clear();

 private:
  // Enough for a database that writes here and there.
  static constexpr std::size_t kMostKept = 4;
  using Buffers = std::map<std::uint64_t, DirtyBufferRef>;  // by offset
  // The first whose end lies beyond.
  Buffers::const_iterator FirstBeyond(std::uint64_t offset_bytes) const;
  DirtyBufferRef NewBuffer(std::uint64_t offset_bytes, const Place& place);
  // It goes from the file, or has.
  void Go(DirtyBuffer& dirty_buffer);

  Buffers buffers_;
  std::size_t landing_ = 0;
  std::uint64_t session_ = 1;
  std::size_t dirty_buffers_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint64_t changes_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace reel::client
