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
std::vector<Piece> CutAtRegions(const std::vector<Piece>& pieces) {
  std::vector<Piece> cut;
  for (const Piece& piece : pieces) {
    for (std::uint64_t done = 0; done < piece.length_blocks;) {
      const std::uint64_t at = piece.file_block + done;
      const std::uint64_t part =
          std::min(piece.length_blocks - done, kExtentRegionBlocks - at % kExtentRegionBlocks);
      cut.push_back(PartOf(piece, done, part));
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
    Piece piece{.file_block = file_block,
                .length_blocks = record.length_blocks(),
                .pool = record.places(0).pool(),
                .pool_block = record.places(0).pool_block(),
                .state = record.state(),
                .birth_sequence = record.birth_sequence()};
    const auto& pools = state_.input.descriptor.pools;
    const bool data = piece.pool < pools.size() && (pools[piece.pool].flags & Pool::kData) != 0;
    const std::uint64_t size = data ? pools[piece.pool].size_blocks() : 0;
    if (piece.length_blocks == 0 || piece.pool_block > size ||
        piece.length_blocks > size - piece.pool_block) {
      return Drop("extent", file_block, "dropped: it does not lie within a data pool");
    }
    if (file_block >= end_block_) return Cut();
    if (piece.length_blocks > end_block_ - file_block) {
      piece.length_blocks = end_block_ - file_block;
      Cut();
    }
    if (piece.state != v1::EXTENT_WRITTEN && piece.state != v1::EXTENT_UNWRITTEN) {
      // What was never written there might be somebody else's: zeros are nobody's.
      piece.state = v1::EXTENT_UNWRITTEN;
      changed_ = true;
      state_.Did("extent", Where(inode_, file_block), "unwritten now: it had no state");
    }
    overlaps_ |= !pieces_.empty() && file_block < pieces_.back().end();
    pieces_.push_back(piece);
  }

  std::vector<Piece> Finish(bool& changed) {
    if (overlaps_) SettleOverlaps();
    std::vector<Piece> cut = CutAtRegions(pieces_);
    if (cut.size() != pieces_.size() && !overlaps_) {
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
  void SettleOverlaps() {
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return a.birth_sequence > b.birth_sequence;
    });
    Intervals covered;
    std::vector<Piece> kept;
    for (const Piece& piece : pieces_) {
      for (const auto& [start, end] : covered.Add(piece.file_block, piece.end())) {
        kept.push_back(PartOf(piece, start - piece.file_block, end - start));
      }
    }
    std::sort(kept.begin(), kept.end(),
              [](const Piece& a, const Piece& b) { return a.file_block < b.file_block; });
    state_.Did("extent", InodeText(inode_),
               "extents that overlapped in the file were cut; the youngest kept its place");
    pieces_ = std::move(kept);
  }

  State& state_;
  const std::uint64_t inode_, end_block_;
  std::vector<Piece> pieces_;
  bool changed_ = false, overlaps_ = false;
};

}  // namespace

std::string EncodePiece(const Piece& piece) {
  v1::ExtentRecord record;
  record.set_length_blocks(piece.length_blocks);
  record.set_kind(v1::LAYOUT_PLAIN);
  v1::Place& place = *record.add_places();
  place.set_pool(piece.pool);
  place.set_pool_block(piece.pool_block);
  record.set_state(piece.state);
  record.set_birth_sequence(piece.birth_sequence);
  return record.SerializeAsString();
}

Piece PartOf(const Piece& piece, std::uint64_t skip, std::uint64_t length_blocks) {
  Piece part = piece;
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

std::vector<Piece> MendExtents(State& state, FamilyScan& extents, std::uint64_t inode,
                               std::uint64_t end_block, bool& changed) {
  ExtentMender mender(state, inode, end_block);
  for (; extents.valid() && extents.key().first == inode; extents.Next()) {
    mender.Take(extents.key().second, extents.value());
  }
  return mender.Finish(changed);
}

}  // namespace reel::mdc::repairer
