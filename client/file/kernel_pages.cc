#include "client/file/kernel_pages.h"

#include <algorithm>

#include "volume/base/types.h"

namespace reel::client {
namespace {

bool Overlap(const BlockSpan& a, const BlockSpan& b) {
  return a.start < b.start + b.length_blocks && b.start < a.start + a.length_blocks;
}

}  // namespace

BlockSpan KernelPages::PagesOf(const ByteRange& range) {
  const std::uint64_t first = range.from / kPageBytes;
  const std::uint64_t end = DivideUp(range.to, kPageBytes);
  return {FileBlock(first), end > first ? end - first : 0};
}

void KernelPages::Fill(const ByteRange& range, By by) {
  ++fills_;
  const BlockSpan pages = PagesOf(range);
  held_.Add(pages.start, pages.length_blocks);
  if (by == By::kRead) stale_.Remove(pages.start, pages.length_blocks);
  if (held_.range_count() > kMostRanges) held_.Close();
  for (Numbered& drop : drops_) drop.filled = drop.filled || Overlap(drop.pages, pages);
}

bool KernelPages::Any(const BlockSet& set, const ByteRange& range) {
  if (set.empty()) return false;
  const BlockSpan pages = PagesOf(range);
  bool any = false;
  set.ForEachIn(pages.start, pages.length_blocks, [&](FileBlock, std::uint64_t) { any = true; });
  return any;
}

bool KernelPages::IsDropped(const ByteRange& range) const {
  if (MayHold(range)) return true;
  const BlockSpan pages = PagesOf(range);
  return std::any_of(drops_.begin(), drops_.end(),
                     [&](const Numbered& one) { return Overlap(one.pages, pages); });
}

ByteRange KernelPages::First(std::uint64_t most_bytes) const {
  const auto [start, length_blocks] = held_.First();
  const std::uint64_t from = start.value() * kPageBytes;
  return {from, from + std::min(length_blocks * kPageBytes, most_bytes)};
}

std::uint64_t KernelPages::BeginDrop(const ByteRange& range) {
  drops_.push_back({++last_number_, PagesOf(range)});
  return last_number_;
}

bool KernelPages::EndDrop(std::uint64_t drop) {
  const auto ended = std::find_if(drops_.begin(), drops_.end(),
                                  [&](const Numbered& one) { return one.number == drop; });
  const Numbered one = *ended;
  drops_.erase(ended);
  // What was filled since then is there, but nothing that was there before.
  stale_.Remove(one.pages.start, one.pages.length_blocks);
  if (!one.filled) held_.Remove(one.pages.start, one.pages.length_blocks);
  return !one.filled;
}

std::uint64_t KernelPages::BeginChange(const ByteRange& range) {
  changes_.push_back({++last_number_, PagesOf(range)});
  return last_number_;
}

void KernelPages::EndChange(std::uint64_t change) {
  std::erase_if(changes_, [&](const Numbered& one) { return one.number == change; });
}

bool KernelPages::IsChanging(const ByteRange& range) const {
  const BlockSpan pages = PagesOf(range);
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const Numbered& one) { return Overlap(one.pages, pages); });
}

}  // namespace reel::client
