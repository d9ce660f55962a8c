#include "volume/format/extent_map.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace reel {
namespace {

// Ranges that would pass the last block end there.
FileBlock EndOf(FileBlock start, std::uint64_t length_blocks) {
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - start.value();
  return start + std::min(length_blocks, room);
}

// True when `b` continues `a`.
bool Joins(const Extent& a, const Extent& b) {
  if (a.end() != b.file_block || a.state != b.state) return false;
  return a.state == ExtentState::kHole ||
         (a.pool == b.pool && a.pool_block + a.length_blocks == b.pool_block);
}

// The part of `extent` in [start, end). REQUIRES: they overlap.
Extent Cut(Extent extent, FileBlock start, FileBlock end) {
  const FileBlock last = std::min(end, extent.end());
  if (start > extent.file_block) {
    if (extent.state != ExtentState::kHole) {
      extent.pool_block = extent.pool_block + (start - extent.file_block);
    }
    extent.file_block = start;
  }
  extent.length_blocks = last - extent.file_block;
  return extent;
}

}  // namespace

void ExtentMap::Set(const Extent& extent) {
  Extent added = extent;
  added.length_blocks = EndOf(extent.file_block, extent.length_blocks) - extent.file_block;
  if (added.length_blocks == 0) return;
  if (added.state == ExtentState::kHole) {
    added.pool = PoolId();
    added.pool_block = PoolBlock();
  }
  auto next = extents_.lower_bound(added.file_block);
  const bool room = next == extents_.end() || next->first >= added.end();
  // A file that grows at its end: the common case makes no new node.
  if (room && next != extents_.begin() && Joins(std::prev(next)->second, added)) {
    std::prev(next)->second.length_blocks += added.length_blocks;
    MergeAround(added.end());
    return;
  }
  Erase(added.file_block, added.length_blocks);
  extents_.emplace(added.file_block, added);
  MergeAround(added.file_block);
  MergeAround(added.end());
}

void ExtentMap::Erase(FileBlock start, std::uint64_t length_blocks) {
  const FileBlock end = EndOf(start, length_blocks);
  if (start == end || extents_.empty()) return;
  SplitAt(start);
  SplitAt(end);
  extents_.erase(extents_.lower_bound(start), extents_.lower_bound(end));
}

void ExtentMap::EraseFrom(FileBlock start) {
  SplitAt(start);
  extents_.erase(extents_.lower_bound(start), extents_.end());
}

void ExtentMap::MarkWritten(FileBlock start, std::uint64_t length_blocks) {
  const FileBlock end = EndOf(start, length_blocks);
  if (start == end) return;
  SplitAt(start);
  SplitAt(end);
  auto it = extents_.lower_bound(start);
  while (it != extents_.end() && it->first < end) {
    if (it->second.state == ExtentState::kUnwritten) it->second.state = ExtentState::kWritten;
    const FileBlock place = it->first;
    ++it;
    MergeAround(place);
  }
  MergeAround(start);
  MergeAround(end);
}

std::optional<Extent> ExtentMap::Find(FileBlock block) const {
  auto it = extents_.upper_bound(block);
  if (it == extents_.begin()) return std::nullopt;
  --it;
  if (block >= it->second.end()) return std::nullopt;
  return it->second;
}

std::vector<Extent> ExtentMap::Slice(FileBlock start, std::uint64_t length_blocks) const {
  std::vector<Extent> pieces;
  const FileBlock end = EndOf(start, length_blocks);
  if (start == end) return pieces;
  auto it = extents_.upper_bound(start);
  if (it != extents_.begin() && std::prev(it)->second.end() > start) --it;
  for (; it != extents_.end() && it->first < end; ++it) {
    pieces.push_back(Cut(it->second, start, end));
  }
  return pieces;
}

bool ExtentMap::Covers(FileBlock start, std::uint64_t length_blocks) const {
  const FileBlock end = EndOf(start, length_blocks);
  if (start == end) return true;
  auto it = extents_.upper_bound(start);
  if (it == extents_.begin()) return false;
  FileBlock covered = start;
  for (--it; it != extents_.end() && it->first <= covered; ++it) {
    covered = std::max(covered, it->second.end());
    if (covered >= end) return true;
  }
  return false;
}

std::vector<Extent> ExtentMap::All() const {
  std::vector<Extent> all;
  all.reserve(extents_.size());
  for (const auto& [start, extent] : extents_) all.push_back(extent);
  return all;
}

void ExtentMap::SplitAt(FileBlock block) {
  auto it = extents_.lower_bound(block);
  if (it == extents_.begin()) return;
  Extent& left = std::prev(it)->second;
  if (left.end() <= block) return;
  extents_.emplace_hint(it, block, Cut(left, block, left.end()));
  left.length_blocks = block - left.file_block;
}

// Makes one of the extents that meet at `block`, if they continue each other.
void ExtentMap::MergeAround(FileBlock block) {
  const auto right = extents_.find(block);
  if (right == extents_.end() || right == extents_.begin()) return;
  Extent& left = std::prev(right)->second;
  if (!Joins(left, right->second)) return;
  left.length_blocks += right->second.length_blocks;
  extents_.erase(right);
}

}  // namespace reel
