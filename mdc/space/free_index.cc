#include "mdc/space/free_index.h"

#include <bit>
#include <iterator>

namespace reel::mdc {
namespace {

std::size_t ClassOf(std::uint64_t length_blocks) {
  return static_cast<std::size_t>(std::bit_width(length_blocks)) - 1;
}

}  // namespace

void FreeIndex::Add(std::uint64_t start, std::uint64_t length_blocks) {
  by_start_.emplace(start, length_blocks);
  if (sized_) by_size_.emplace(length_blocks, start);
  total_blocks_ += length_blocks;
  Class& of_length = classes_[ClassOf(length_blocks)];
  ++of_length.runs;
  of_length.blocks += length_blocks;
}

void FreeIndex::Erase(std::uint64_t start, std::uint64_t length_blocks) {
  by_start_.erase(start);
  if (sized_) by_size_.erase({length_blocks, start});
  total_blocks_ -= length_blocks;
  Class& of_length = classes_[ClassOf(length_blocks)];
  --of_length.runs;
  of_length.blocks -= length_blocks;
}

std::optional<FreeIndex::Run> FreeIndex::Containing(std::uint64_t block) const {
  auto next = by_start_.upper_bound(block);
  if (next == by_start_.begin()) return std::nullopt;
  --next;
  if (block - next->first >= next->second) return std::nullopt;
  return Run{next->first, next->second};
}

std::optional<FreeIndex::Run> FreeIndex::EndingAt(std::uint64_t block) const {
  if (block == 0) return std::nullopt;
  auto found = Containing(block - 1);
  if (!found || found->end() != block) return std::nullopt;
  return found;
}

std::optional<FreeIndex::Run> FreeIndex::StartingAt(std::uint64_t block) const {
  const auto found = by_start_.find(block);
  if (found == by_start_.end()) return std::nullopt;
  return Run{found->first, found->second};
}

bool FreeIndex::Overlaps(std::uint64_t start, std::uint64_t length_blocks) const {
  if (Containing(start)) return true;
  const auto next = by_start_.lower_bound(start);
  return next != by_start_.end() && next->first - start < length_blocks;
}

void FreeIndex::Insert(std::uint64_t start, std::uint64_t length_blocks) {
  if (const auto before = EndingAt(start)) {
    Erase(before->start, before->length_blocks);
    start = before->start;
    length_blocks += before->length_blocks;
  }
  if (const auto after = StartingAt(start + length_blocks)) {
    Erase(after->start, after->length_blocks);
    length_blocks += after->length_blocks;
  }
  Add(start, length_blocks);
}

void FreeIndex::Remove(std::uint64_t start, std::uint64_t length_blocks) {
  const Run whole = *Containing(start);
  Erase(whole.start, whole.length_blocks);
  if (start > whole.start) Add(whole.start, start - whole.start);
  const std::uint64_t end = start + length_blocks;
  if (whole.end() > end) Add(end, whole.end() - end);
}

std::optional<FreeIndex::Run> FreeIndex::Fit(std::uint64_t length_blocks) const {
  const auto found = by_size_.lower_bound({length_blocks, 0});
  if (found == by_size_.end()) return std::nullopt;
  return Run{found->second, found->first};
}

std::optional<FreeIndex::Run> FreeIndex::Largest() const {
  if (by_size_.empty()) return std::nullopt;
  const auto last = std::prev(by_size_.end());
  return Run{last->second, last->first};
}

bool FreeIndex::Consistent() const {
  std::uint64_t sum = 0;
  std::uint64_t last_end = 0;
  Classes classes{};
  bool first = true;
  for (const auto& [start, length] : by_start_) {
    if (length == 0 || (!first && start <= last_end)) return false;
    if (sized_ && !by_size_.contains({length, start})) return false;
    first = false;
    last_end = start + length;
    sum += length;
    ++classes[ClassOf(length)].runs;
    classes[ClassOf(length)].blocks += length;
  }
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].runs != classes_[i].runs || classes[i].blocks != classes_[i].blocks)
      return false;
  }
  return sum == total_blocks_ && (!sized_ || by_size_.size() == by_start_.size());
}

}  // namespace reel::mdc
