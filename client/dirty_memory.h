// Bytes of a file that are in memory only: written by a program, and not yet on the LUNs.
//
// They lie in windows of the file, aligned to their own size; each knows which of its bytes are
// dirty. A window goes to the LUNs as a whole, by client/write_behind.h, and is gone then.
// Invariants:
//   1. The dirty ranges of a window are disjoint, sorted, and do not touch.
//   2. Nothing is put into a window that is in flight: its bytes are the LUNs' business.
//   3. Every window counts in the budget with the pages that it has touched: all of them, where
//      its memory was used before.
// Threads: a file's memory under the file's mutex; the bytes of a window in flight are read without
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

#include "volume/buffer_pool.h"
#include "volume/mutex.h"

namespace reel::client {

// The memory that windows of all files take together. The limit is where writers begin to wait: a
// request of each of them may come on top.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::uint64_t limit_bytes() const { return limit_bytes_; }
  bool has_room() const { return used_bytes_.load() < limit_bytes_; }
  bool half_used() const { return used_bytes_.load() > limit_bytes_ / 2; }
  // True when with it half of the limit is passed.
  bool Take(std::uint64_t bytes);
  void Give(std::uint64_t bytes);
  // False: there was still no room after `limit`.
  bool AwaitRoom(std::chrono::milliseconds limit);

 private:
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
  Mutex mutex_;
  CondVar given_;
};

struct ByteRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct DirtyWindow {
  DirtyWindow(MemoryBudget& all_memory, std::uint64_t offset, PooledBuffer memory)
      : budget(all_memory), offset_bytes(offset), buffer(std::move(memory)) {}
  ~DirtyWindow() { budget.Give(held_bytes); }
  DirtyWindow(const DirtyWindow&) = delete;
  DirtyWindow& operator=(const DirtyWindow&) = delete;

  MemoryBudget& budget;
  const std::uint64_t offset_bytes;  // in the file, of buffer[0]
  const PooledBuffer buffer;
  std::vector<ByteRange> ranges;  // dirty, in bytes of the file
  std::vector<bool> touched;      // by page of the buffer
  std::uint64_t held_bytes = 0;   // in the budget
  std::uint64_t id = 0;           // grows from window to window of a file
  std::uint64_t since_ms = 0;     // when it was made
  bool queued = false;            // for a thread that will flush it
  bool in_flight = false;
  bool gone = false;  // from its file

  std::uint64_t end_bytes() const { return offset_bytes + buffer.size(); }
  bool whole() const {
    return ranges.front().from == offset_bytes && ranges.front().to == end_bytes();
  }
  std::span<const std::byte> BytesOf(const ByteRange& range) const {
    return buffer.span().subspan(range.from - offset_bytes, range.to - range.from);
  }
  bool Overlaps(const ByteRange& range) const;
  // What is clean in the range becomes dirty, and zero. REQUIRES: the range lies in the window.
  void FillWithZeros(const ByteRange& range);
  // The range is dirty from now on. True when the budget's half is passed with it.
  bool Add(const ByteRange& range);
};
using DirtyWindowRef = std::shared_ptr<DirtyWindow>;

class DirtyMemory {
 public:
  bool empty() const { return windows_.empty(); }
  std::uint64_t last_id() const { return last_id_; }
  std::uint64_t bytes() const;

  // Some byte of the range is in memory only.
  bool Overlaps(const ByteRange& range) const;
  // A window that the range reaches into is on its way to the LUNs.
  bool InFlight(const ByteRange& range) const;
  bool Covers(const ByteRange& range) const;
  // REQUIRES: it covers the range.
  void Read(const ByteRange& range, std::byte* to) const;

  struct Place {
    MemoryBudget& budget;
    BufferPool& buffers;           // for windows of their size
    std::size_t window_bytes = 0;  // the same for all of a file's
    bool fills = false;            // all of a window will be touched soon
    std::uint64_t now_ms = 0;
  };
  struct Kept {
    bool crowded = false;               // half of the budget is used up
    std::vector<DirtyWindowRef> whole;  // windows without a clean byte
  };
  // REQUIRES: nothing there is in flight.
  Kept Put(std::uint64_t offset_bytes, std::span<const std::byte> data, const Place& place);

  // Those with a dirty byte in the range.
  std::vector<DirtyWindowRef> WindowsIn(const ByteRange& range) const;
  void Remove(DirtyWindow& window);
  void Clear();

 private:
  using Windows = std::map<std::uint64_t, DirtyWindowRef>;  // by offset
  // The first whose end lies beyond.
  Windows::const_iterator FirstBeyond(std::uint64_t offset_bytes) const;
  DirtyWindowRef NewWindow(std::uint64_t offset_bytes, const Place& place);

  Windows windows_;
  std::uint64_t last_id_ = 0;
};

}  // namespace reel::client
