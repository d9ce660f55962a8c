// The repairer's view of one file's extents.
#include <algorithm>

#include "mdc/ops/extents.h"
#include "mdc/repair/repairer_facts.h"

namespace reel::mdc::repairer {
namespace {

std::string Where(std::uint64_t inode, std::uint64_t file_block) {
  return absl::StrCat(InodeText(inode), ", file block ", file_block);
}

// Cuts at the ends of regions, which no extent crosses.
std::vector<ExtentPart> CutAtRegions(const std::vector<ExtentPart>& extent_parts) {
  std::vector<ExtentPart> cut;
  for (const ExtentPart& extent_part : extent_parts) {
    for (std::uint64_t done = 0; done < extent_part.length_blocks;) {
      const std::uint64_t at = extent_part.file_block + done;
      const std::uint64_t part = std::min(extent_part.length_blocks - done,
                                          kExtentRegionBlocks - at % kExtentRegionBlocks);
      cut.push_back(PartOf(extent_part, done, part));
      done += part;
    }
  }
  return cut;
}

class ExtentMender {
 public:
  ExtentMender(State& state, std::uint64_t inode, std::uint64_t end_block)
      : state_(state), inode_(inode), end_block_(std::min(end_block, kEndOfFileBlocks.value())) {}

  void Take(std::uint64_t file_block, std::string_view value) {
    v1::ExtentRecord record;
    if (!record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return Drop("record-damaged", file_block, "dropped: the record does not decode");
    }
    if (record.kind() != v1::LAYOUT_PLAIN || record.places_size() != 1 || record.shared()) {
      return Drop("extent", file_block, "dropped: of a kind that this version does not know");
    }
    ExtentPart extent_part{.file_block = file_block,
                           .length_blocks = record.length_blocks(),
                           .pool = record.places(0).pool(),
                           .pool_block = record.places(0).pool_block(),
                           .state = record.state(),
                           .birth_sequence = record.birth_sequence()};
    const auto& pools = state_.input.descriptor.pools;
    const bool data =
        extent_part.pool < pools.size() && (pools[extent_part.pool].flags & Pool::kData) != 0;
    const std::uint64_t size = data ? pools[extent_part.pool].size_blocks() : 0;
    if (extent_part.length_blocks == 0 || extent_part.pool_block > size ||
        extent_part.length_blocks > size - extent_part.pool_block) {
      return Drop("extent", file_block, "dropped: it does not lie within a data pool");
    }
    if (file_block >= end_block_) return Cut();
    if (extent_part.length_blocks > end_block_ - file_block) {
      extent_part.length_blocks = end_block_ - file_block;
      Cut();
    }
    if (extent_part.state != v1::EXTENT_WRITTEN && extent_part.state != v1::EXTENT_UNWRITTEN) {
      // What was never written there might be somebody else's: zeros are nobody's.
      extent_part.state = v1::EXTENT_UNWRITTEN;
      changed_ = true;
      state_.Did("extent", Where(inode_, file_block), "unwritten now: it had no state");
    }
    overlaps_ |= !parts_.empty() && file_block < parts_.back().end();
    parts_.push_back(extent_part);
  }

  std::vector<ExtentPart> Finish(bool& changed) {
    if (overlaps_) ResolveOverlaps();
    std::vector<ExtentPart> cut = CutAtRegions(parts_);
    if (cut.size() != parts_.size() && !overlaps_) {
      changed_ = true;
      state_.Did("extent", InodeText(inode_), "extents that crossed a region's end were cut there");
    }
    changed = changed_ || overlaps_;
    return cut;
  }

 private:
  void Drop(std::string_view code, std::uint64_t file_block, std::string what) {
    changed_ = true;
    state_.Did(code, Where(inode_, file_block), std::move(what));
  }
  // The end of the file's blocks is no damage where a truncation had not ended; that is told there.
  void Cut() {
    if (!changed_ && end_block_ == kEndOfFileBlocks.value()) {
      state_.Did("extent", InodeText(inode_), "cut off at the largest file's end");
    }
    changed_ = true;
  }

  // The extent that was born last is what the file got last.
  void ResolveOverlaps() {
    std::stable_sort(parts_.begin(), parts_.end(), [](const ExtentPart& a, const ExtentPart& b) {
      return a.birth_sequence > b.birth_sequence;
    });
    Intervals covered;
    std::vector<ExtentPart> kept;
    for (const ExtentPart& extent_part : parts_) {
      for (const auto& [start, end] : covered.Add(extent_part.file_block, extent_part.end())) {
        kept.push_back(PartOf(extent_part, start - extent_part.file_block, end - start));
      }
    }
    std::sort(kept.begin(), kept.end(),
              [](const ExtentPart& a, const ExtentPart& b) { return a.file_block < b.file_block; });
    state_.Did("extent", InodeText(inode_),
               "extents that overlapped in the file were cut; the youngest kept its place");
    parts_ = std::move(kept);
  }

  State& state_;
  const std::uint64_t inode_, end_block_;
  std::vector<ExtentPart> parts_;
  bool changed_ = false, overlaps_ = false;
};

}  // namespace

std::string EncodeExtentPart(const ExtentPart& extent_part) {
  v1::ExtentRecord record;
  record.set_length_blocks(extent_part.length_blocks);
  record.set_kind(v1::LAYOUT_PLAIN);
  v1::Place& place = *record.add_places();
  place.set_pool(extent_part.pool);
  place.set_pool_block(extent_part.pool_block);
  record.set_state(extent_part.state);
  record.set_birth_sequence(extent_part.birth_sequence);
  return record.SerializeAsString();
}

ExtentPart PartOf(const ExtentPart& extent_part, std::uint64_t skip, std::uint64_t length_blocks) {
  ExtentPart part = extent_part;
  part.file_block += skip;
  part.pool_block += skip;
  part.length_blocks = length_blocks;
  return part;
}

std::vector<Intervals::Part> Intervals::Add(std::uint64_t start, std::uint64_t end) {
  std::vector<Part> added;
  std::uint64_t at = start;
  auto next = ends_.upper_bound(start);
  if (next != ends_.begin() && std::prev(next)->second > start) at = std::prev(next)->second;
  for (; at < end; ++next) {
    const std::uint64_t stop = next == ends_.end() ? end : std::min(end, next->first);
    if (stop > at) added.emplace_back(at, stop);
    if (next == ends_.end()) break;
    at = std::max(at, next->second);
  }
  for (const auto& [from, to] : added) ends_[from] = to;
  return added;
}

std::vector<ExtentPart> MendExtents(State& state, FamilyScan& extents, std::uint64_t inode,
                                    std::uint64_t end_block, bool& changed) {
  ExtentMender mender(state, inode, end_block);
  for (; extents.valid() && extents.key().first == inode; extents.Next()) {
    mender.Take(extents.key().second, extents.value());
  }
  return mender.Finish(changed);
}

}  // namespace reel::mdc::repairer
