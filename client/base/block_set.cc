#include "client/base/block_set.h"

#include <algorithm>
#include <iterator>

namespace reel::client {

void BlockSet::Add(FileBlock start, std::uint64_t length_blocks) {
  if (length_blocks == 0) return;
  std::uint64_t from = start.value();
  std::uint64_t to = from + length_blocks;
  auto it = ranges_.upper_bound(from);
  if (it != ranges_.begin() && std::prev(it)->second >= from) --it;
  while (it != ranges_.end() && it->first <= to) {
    from = std::min(from, it->first);
    to = std::max(to, it->second);
    it = ranges_.erase(it);
  }
  ranges_.emplace(from, to);
}

void BlockSet::Add(const BlockSet& other) {
  for (const auto& [from, to] : other.ranges_) Add(FileBlock(from), to - from);
}

void BlockSet::Remove(FileBlock start, std::uint64_t length_blocks) {
  const std::uint64_t from = start.value();
  const std::uint64_t to = from + length_blocks;
  auto it = ranges_.upper_bound(from);
  if (it != ranges_.begin() && std::prev(it)->second > from) --it;
  while (it != ranges_.end() && it->first < to) {
    const auto [old_from, old_to] = *it;
    it = ranges_.erase(it);
    if (old_from < from) ranges_.emplace(old_from, from);
    if (old_to > to) it = ranges_.emplace(to, old_to).first;
  }
}

void BlockSet::Close() {
  if (ranges_.size() < 2) return;
  const std::uint64_t from = ranges_.begin()->first;
  const std::uint64_t to = ranges_.rbegin()->second;
  ranges_.clear();
  ranges_.emplace(from, to);
}

void BlockSet::TakeRanges(std::size_t max_ranges, BlockSet& taken) {
  while (max_ranges-- > 0 && !ranges_.empty()) {
    const auto first = ranges_.begin();
    taken.Add(FileBlock(first->first), first->second - first->first);
    ranges_.erase(first);
  }
}

void BlockSet::ForEach(Visitor visit) const {
  for (const auto& [from, to] : ranges_) visit(FileBlock(from), to - from);
}

void BlockSet::ForEachIn(FileBlock start, std::uint64_t length_blocks, Visitor visit) const {
  const std::uint64_t from = start.value();
  const std::uint64_t to = from + length_blocks;
  auto it = ranges_.upper_bound(from);
  if (it != ranges_.begin() && std::prev(it)->second > from) --it;
  for (; it != ranges_.end() && it->first < to; ++it) {
    const std::uint64_t cut_from = std::max(from, it->first);
    visit(FileBlock(cut_from), std::min(to, it->second) - cut_from);
  }
}

}  // namespace reel::client
