#include "client/file/dirty_memory.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstring>

#include "volume/base/types.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// Merged with those that it overlaps or touches.
void AddRange(ByteRange added, std::vector<ByteRange>& ranges) {
  const auto first =
      std::lower_bound(ranges.begin(), ranges.end(), added.from,
                       [](const ByteRange& range, std::uint64_t from) { return range.to < from; });
  auto last = first;
  for (; last != ranges.end() && last->from <= added.to; ++last) {
    added.from = std::min(added.from, last->from);
    added.to = std::max(added.to, last->to);
  }
  if (first == last) {
    ranges.insert(first, added);
  } else {
    *first = added;
    ranges.erase(first + 1, last);
  }
}

// What of `range` lies in none of `pieces`, which are sorted.
template <typename Visit>
void ForGaps(const ByteRange& range, const std::vector<ByteRange>& pieces, Visit visit) {
  std::uint64_t from = range.from;
  for (const ByteRange& piece : pieces) {
    if (piece.to <= range.from || range.to <= piece.from) continue;
    if (from < piece.from) visit(ByteRange{from, piece.from});
    from = std::max(from, piece.to);
  }
  if (from < range.to) visit(ByteRange{from, range.to});
}

}  // namespace

// ---- budget -----------------------------------------------------------------------------------

bool MemoryBudget::Take(std::uint64_t bytes) {
  const std::uint64_t before = used_bytes_.fetch_add(bytes);
  return before <= limit_bytes_ / 2 && before + bytes > limit_bytes_ / 2;
}

void MemoryBudget::Give(std::uint64_t bytes) {
  const std::uint64_t before = used_bytes_.fetch_sub(bytes);
  if (before < limit_bytes_ || before - bytes >= limit_bytes_) return;
  MutexLock lock(mutex_);
  given_.NotifyAll();
}

void MemoryBudget::SetLimit(std::uint64_t limit_bytes) {
  limit_bytes_.store(limit_bytes);
  MutexLock lock(mutex_);
  given_.NotifyAll();
}

bool MemoryBudget::AwaitRoom(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  if (!has_room()) given_.WaitFor(mutex_, limit);
  return has_room();
}

// ---- spare memory -----------------------------------------------------------------------------

SpareMemory::Piece SpareMemory::Take(std::size_t size_bytes) {
  {
    MutexLock lock(mutex_);
    // The one that was used last: its bytes are the likeliest to be in a processor's cache.
    if (!pieces_.empty() && pieces_.back().buffer.size() == size_bytes) {
      Piece piece = std::move(pieces_.back());
      pieces_.pop_back();
      ASAN_UNPOISON_MEMORY_REGION(piece.buffer.data(), size_bytes);
      return piece;
    }
  }
  return {.buffer = PooledBuffer(AlignedBuffer(size_bytes)),
          .touched = std::vector<bool>(DivideUp(size_bytes, kPageBytes)),
          .touched_bytes = 0};
}

void SpareMemory::Give(Piece piece) {
  if (piece.touched_bytes > std::min<std::size_t>(kMostTouchedBytes, piece.buffer.size() / 2))
    return;
  MutexLock lock(mutex_);
  if (pieces_.size() >= kMostPieces) return;
  // Whoever uses it still is found out, as with memory that was freed.
  ASAN_POISON_MEMORY_REGION(piece.buffer.data(), piece.buffer.size());
  pieces_.push_back(std::move(piece));
}

// ---- a file's ---------------------------------------------------------------------------------

bool DirtyWindow::Overlaps(const ByteRange& range) const {
  return std::any_of(ranges.begin(), ranges.end(), [&](const ByteRange& dirty) {
    return dirty.from < range.to && range.from < dirty.to;
  });
}

bool DirtyWindow::Knows(const ByteRange& range) const {
  return std::any_of(known.begin(), known.end(), [&](const ByteRange& piece) {
    return piece.from <= range.from && range.to <= piece.to;
  });
}

bool DirtyWindow::Add(const ByteRange& range) {
  AddRange(range, ranges);
  AddRange(range, known);
  return Touch(range);
}

bool DirtyWindow::Touch(const ByteRange& range) {
  std::uint64_t touched_bytes = 0;
  const std::uint64_t end = DivideUp(range.to - offset_bytes, kPageBytes);
  for (std::uint64_t page = (range.from - offset_bytes) / kPageBytes; page < end; ++page) {
    if (memory.touched[page]) continue;
    memory.touched[page] = true;
    touched_bytes += kPageBytes;
  }
  memory.touched_bytes += touched_bytes;
  return touched_bytes > 0 && budget.Take(touched_bytes);
}

void DirtyWindow::FillWithZeros(const ByteRange& range) {
  ForGaps(range, ranges, [this](const ByteRange& clean) {
    std::memset(memory.buffer.data() + (clean.from - offset_bytes), 0, clean.to - clean.from);
  });
  Add(range);
}

void DirtyWindow::Learn(const ByteRange& range, const std::byte* bytes) {
  ForGaps(range, known, [&](const ByteRange& gap) {
    std::memcpy(memory.buffer.data() + (gap.from - offset_bytes), bytes + (gap.from - range.from),
                gap.to - gap.from);
  });
  AddRange(range, known);
  Touch(range);
}

DirtyMemory::Windows::const_iterator DirtyMemory::FirstBeyond(std::uint64_t offset_bytes) const {
  auto at = windows_.upper_bound(offset_bytes);
  if (at != windows_.begin() && std::prev(at)->second->end_bytes() > offset_bytes) --at;
  return at;
}

std::uint64_t DirtyMemory::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [offset, window] : windows_) {
    for (const ByteRange& range : window->ranges) sum += range.to - range.from;
  }
  return sum;
}

std::vector<DirtyWindowRef> DirtyMemory::WindowsIn(const ByteRange& range) const {
  std::vector<DirtyWindowRef> found;
  for (auto at = FirstBeyond(range.from); at != windows_.end() && at->first < range.to; ++at) {
    if (at->second->Overlaps(range)) found.push_back(at->second);
  }
  return found;
}

bool DirtyMemory::Overlaps(const ByteRange& range) const {
  for (auto at = FirstBeyond(range.from); at != windows_.end() && at->first < range.to; ++at) {
    if (at->second->Overlaps(range)) return true;
  }
  return false;
}

bool DirtyMemory::InFlight(const ByteRange& range) const {
  for (auto at = FirstBeyond(range.from); at != windows_.end() && at->first < range.to; ++at) {
    if (at->second->in_flight) return true;
  }
  return false;
}

bool DirtyMemory::Covers(const ByteRange& range) const {
  std::uint64_t covered = range.from;
  for (auto at = FirstBeyond(range.from); at != windows_.end() && covered < range.to; ++at) {
    const std::uint64_t before = covered;
    for (const ByteRange& known : at->second->known) {
      if (known.from <= covered && covered < known.to) covered = known.to;
    }
    if (covered == before) return false;
  }
  return covered >= range.to;
}

void DirtyMemory::Read(const ByteRange& range, std::byte* to) const {
  for (auto at = FirstBeyond(range.from); at != windows_.end() && at->first < range.to; ++at) {
    const DirtyWindow& window = *at->second;
    const ByteRange part{std::max(range.from, window.offset_bytes),
                         std::min(range.to, window.end_bytes())};
    const std::span<const std::byte> bytes = window.BytesOf(part);
    std::memcpy(to + (part.from - range.from), bytes.data(), bytes.size());
  }
}

// What will be filled takes memory that was filled before: that costs nothing to touch.
DirtyWindowRef DirtyMemory::NewWindow(std::uint64_t offset_bytes, const Place& place) {
  const bool filled = place.fills && place.buffers.buffer_bytes() == place.window_bytes;
  const std::uint64_t pages = DivideUp(place.window_bytes, kPageBytes);
  return std::make_shared<DirtyWindow>(
      place.budget, place.spare, offset_bytes,
      filled ? SpareMemory::Piece{.buffer = place.buffers.Take(),
                                  .touched = std::vector<bool>(pages, true),
                                  .touched_bytes = pages * kPageBytes}
             : place.spare.Take(place.window_bytes));
}

DirtyMemory::Kept DirtyMemory::Put(std::uint64_t offset_bytes, std::span<const std::byte> data,
                                   const Place& place) {
  Kept kept;
  const std::uint64_t end_bytes = offset_bytes + data.size();
  for (std::uint64_t at = offset_bytes; at < end_bytes;) {
    const std::uint64_t start = RoundDown(at, place.window_bytes);
    const ByteRange part{at, std::min(end_bytes, start + place.window_bytes)};
    DirtyWindowRef& window = windows_[start];
    if (window == nullptr) {
      window = NewWindow(start, place);
      kept.crowded = place.budget.Take(window->held_bytes()) || kept.crowded;
    }
    if (!window->dirty()) {
      ++dirty_windows_;
      window->id = ++last_id_;
      window->since_ms = place.now_ms;
    }
    std::memcpy(window->memory.buffer.data() + (part.from - start),
                data.data() + (at - offset_bytes), part.to - part.from);
    kept.crowded = window->Add(part) || kept.crowded;
    if (window->whole()) kept.whole.push_back(window);
    at = part.to;
  }
  return kept;
}

void DirtyMemory::Remove(DirtyWindow& window) {
  window.gone = true;
  if (window.dirty()) --dirty_windows_;
  windows_.erase(window.offset_bytes);
}

void DirtyMemory::Keep(DirtyWindow& window) {
  window.ranges.clear();
  --dirty_windows_;
  if (windows_.size() - dirty_windows_ <= kMostKept) return;
  DirtyWindow* oldest = nullptr;
  for (const auto& [offset, kept] : windows_) {
    if (!kept->dirty() && (oldest == nullptr || kept->id < oldest->id)) oldest = kept.get();
  }
  Remove(*oldest);
}

void DirtyMemory::Forget(const ByteRange& range) {
  ++forgotten_;
  for (auto at = windows_.begin(); at != windows_.end();) {
    DirtyWindow& window = *at->second;
    if (window.end_bytes() <= range.from || range.to <= window.offset_bytes) {
      ++at;
    } else if (window.dirty()) {
      window.known = window.ranges;
      ++at;
    } else {
      window.gone = true;
      at = windows_.erase(at);
    }
  }
}

void DirtyMemory::Clear() {
  ++forgotten_;
  for (const auto& [offset, window] : windows_) window->gone = true;
  windows_.clear();
  dirty_windows_ = 0;
}

}  // namespace reel::client
