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
  for (const ByteRange& slab : pieces) {
    if (slab.to <= range.from || range.to <= slab.from) continue;
    if (from < slab.from) visit(ByteRange{from, slab.from});
    from = std::max(from, slab.to);
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

SpareMemory::Slab SpareMemory::Take(std::size_t size_bytes) {
  {
    MutexLock lock(mutex_);
    // The one that was used last: its bytes are the likeliest to be in a processor's cache.
    if (!slabs_.empty() && slabs_.back().buffer.size() == size_bytes) {
      Slab slab = std::move(slabs_.back());
      slabs_.pop_back();
      ASAN_UNPOISON_MEMORY_REGION(slab.buffer.data(), size_bytes);
      return slab;
    }
  }
  return {.buffer = PooledBuffer(AlignedBuffer(size_bytes)),
          .touched = std::vector<bool>(DivideUp(size_bytes, kPageBytes)),
          .touched_bytes = 0};
}

void SpareMemory::Give(Slab slab) {
  if (slab.touched_bytes > std::min<std::size_t>(kMostTouchedBytes, slab.buffer.size() / 2)) return;
  MutexLock lock(mutex_);
  if (slabs_.size() >= kMaxSlabs) return;
  // Whoever uses it still is found out, as with memory that was freed.
  ASAN_POISON_MEMORY_REGION(slab.buffer.data(), slab.buffer.size());
  slabs_.push_back(std::move(slab));
}

// ---- a file's ---------------------------------------------------------------------------------

bool DirtyBuffer::Overlaps(const ByteRange& range) const {
  return std::any_of(ranges.begin(), ranges.end(), [&](const ByteRange& dirty) {
    return dirty.from < range.to && range.from < dirty.to;
  });
}

bool DirtyBuffer::Knows(const ByteRange& range) const {
  return std::any_of(known.begin(), known.end(), [&](const ByteRange& slab) {
    return slab.from <= range.from && range.to <= slab.to;
  });
}

bool DirtyBuffer::Add(const ByteRange& range) {
  AddRange(range, ranges);
  AddRange(range, known);
  return Touch(range);
}

bool DirtyBuffer::Touch(const ByteRange& range) {
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

void DirtyBuffer::FillWithZeros(const ByteRange& range) {
  ForGaps(range, ranges, [this](const ByteRange& clean) {
    std::memset(memory.buffer.data() + (clean.from - offset_bytes), 0, clean.to - clean.from);
  });
  Add(range);
}

void DirtyBuffer::Learn(const ByteRange& range, const std::byte* bytes) {
  ForGaps(range, known, [&](const ByteRange& gap) {
    std::memcpy(memory.buffer.data() + (gap.from - offset_bytes), bytes + (gap.from - range.from),
                gap.to - gap.from);
  });
  AddRange(range, known);
  Touch(range);
}

DirtyMemory::Buffers::const_iterator DirtyMemory::FirstBeyond(std::uint64_t offset_bytes) const {
  auto at = buffers_.upper_bound(offset_bytes);
  if (at != buffers_.begin() && std::prev(at)->second->end_bytes() > offset_bytes) --at;
  return at;
}

std::uint64_t DirtyMemory::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [offset, dirty_buffer] : buffers_) {
    for (const ByteRange& range : dirty_buffer->ranges) sum += range.to - range.from;
  }
  return sum;
}

std::vector<DirtyBufferRef> DirtyMemory::BuffersIn(const ByteRange& range) const {
  std::vector<DirtyBufferRef> found;
  for (auto at = FirstBeyond(range.from); at != buffers_.end() && at->first < range.to; ++at) {
    if (at->second->Overlaps(range)) found.push_back(at->second);
  }
  return found;
}

bool DirtyMemory::Overlaps(const ByteRange& range) const {
  for (auto at = FirstBeyond(range.from); at != buffers_.end() && at->first < range.to; ++at) {
    if (at->second->Overlaps(range)) return true;
  }
  return false;
}

bool DirtyMemory::InFlight(const ByteRange& range) const {
  for (auto at = FirstBeyond(range.from); at != buffers_.end() && at->first < range.to; ++at) {
    if (at->second->in_flight) return true;
  }
  return false;
}

bool DirtyMemory::Covers(const ByteRange& range) const {
  std::uint64_t covered = range.from;
  for (auto at = FirstBeyond(range.from); at != buffers_.end() && covered < range.to; ++at) {
    const std::uint64_t before = covered;
    for (const ByteRange& known : at->second->known) {
      if (known.from <= covered && covered < known.to) covered = known.to;
    }
    if (covered == before) return false;
  }
  return covered >= range.to;
}

void DirtyMemory::Read(const ByteRange& range, std::byte* to) const {
  for (auto at = FirstBeyond(range.from); at != buffers_.end() && at->first < range.to; ++at) {
    const DirtyBuffer& dirty_buffer = *at->second;
    const ByteRange part{std::max(range.from, dirty_buffer.offset_bytes),
                         std::min(range.to, dirty_buffer.end_bytes())};
    const std::span<const std::byte> bytes = dirty_buffer.BytesOf(part);
    std::memcpy(to + (part.from - range.from), bytes.data(), bytes.size());
  }
}

// What will be filled takes memory that was filled before: that costs nothing to touch.
DirtyBufferRef DirtyMemory::NewBuffer(std::uint64_t offset_bytes, const Place& place) {
  const bool filled = place.fills && place.buffers.buffer_bytes() == place.dirty_buffer_bytes;
  const std::uint64_t pages = DivideUp(place.dirty_buffer_bytes, kPageBytes);
  return std::make_shared<DirtyBuffer>(
      place.budget, place.spare, offset_bytes,
      filled ? SpareMemory::Slab{.buffer = place.buffers.Take(),
                                 .touched = std::vector<bool>(pages, true),
                                 .touched_bytes = pages * kPageBytes}
             : place.spare.Take(place.dirty_buffer_bytes));
}

DirtyMemory::Kept DirtyMemory::Put(std::uint64_t offset_bytes, std::span<const std::byte> data,
                                   const Place& place) {
  Kept kept;
  ++changes_;
  const std::uint64_t end_bytes = offset_bytes + data.size();
  for (std::uint64_t at = offset_bytes; at < end_bytes;) {
    const std::uint64_t start = RoundDown(at, place.dirty_buffer_bytes);
    const ByteRange part{at, std::min(end_bytes, start + place.dirty_buffer_bytes)};
    DirtyBufferRef& dirty_buffer = buffers_[start];
    if (dirty_buffer == nullptr) {
      dirty_buffer = NewBuffer(start, place);
      kept.crowded = place.budget.Take(dirty_buffer->held_bytes()) || kept.crowded;
    }
    if (!dirty_buffer->dirty()) {
      ++dirty_buffers_;
      dirty_buffer->id = ++last_id_;
      dirty_buffer->since_ms = place.now_ms;
    }
    std::memcpy(dirty_buffer->memory.buffer.data() + (part.from - start),
                data.data() + (at - offset_bytes), part.to - part.from);
    kept.crowded = dirty_buffer->Add(part) || kept.crowded;
    if (dirty_buffer->whole()) kept.whole.push_back(dirty_buffer);
    at = part.to;
  }
  return kept;
}

void DirtyMemory::Remove(DirtyBuffer& dirty_buffer) {
  ++changes_;
  Go(dirty_buffer);
  if (dirty_buffer.dirty()) --dirty_buffers_;
  buffers_.erase(dirty_buffer.offset_bytes);
}

void DirtyMemory::Keep(DirtyBuffer& dirty_buffer) {
  ++changes_;
  dirty_buffer.ranges.clear();
  --dirty_buffers_;
  if (buffers_.size() - dirty_buffers_ <= kMostKept) return;
  DirtyBuffer* oldest = nullptr;
  for (const auto& [offset, kept] : buffers_) {
    if (!kept->dirty() && (oldest == nullptr || kept->id < oldest->id)) oldest = kept.get();
  }
  Remove(*oldest);
}

void DirtyMemory::Forget(const ByteRange& range) {
  ++forgotten_;
  for (auto at = buffers_.begin(); at != buffers_.end();) {
    DirtyBuffer& dirty_buffer = *at->second;
    if (dirty_buffer.end_bytes() <= range.from || range.to <= dirty_buffer.offset_bytes) {
      ++at;
    } else if (dirty_buffer.dirty()) {
      dirty_buffer.known = dirty_buffer.ranges;
      ++at;
    } else {
      Go(dirty_buffer);
      at = buffers_.erase(at);
    }
  }
}

void DirtyMemory::Clear() {
  ++changes_;
  ++forgotten_;
  for (const auto& [offset, dirty_buffer] : buffers_) Go(*dirty_buffer);
  buffers_.clear();
  dirty_buffers_ = 0;
}

void DirtyMemory::Go(DirtyBuffer& dirty_buffer) {
  dirty_buffer.gone = true;
  if (!dirty_buffer.to_luns) return;
  dirty_buffer.landing_in = session_;
  ++landing_;
}

void DirtyMemory::Void() {
  Clear();
  landing_ = 0;
  ++session_;
}

void DirtyMemory::BeginFlight(DirtyBuffer& dirty_buffer) {
  dirty_buffer.in_flight = dirty_buffer.to_luns = true;
}

void DirtyMemory::EndFlight(DirtyBuffer& dirty_buffer) {
  dirty_buffer.in_flight = dirty_buffer.to_luns = false;
  if (dirty_buffer.landing_in == session_) --landing_;
}

}  // namespace reel::client
