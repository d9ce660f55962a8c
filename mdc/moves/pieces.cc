#include "mdc/moves/pieces.h"

#include <algorithm>
#include <numeric>

namespace reel::mdc {
namespace {

// An extent from that block of it on.
Extent From(Extent extent, std::uint64_t blocks) {
  extent.file_block = extent.file_block + blocks;
  extent.pool_block = extent.pool_block + blocks;
  extent.length_blocks -= blocks;
  return extent;
}

// The extent's first part that lies in one of the areas (which one), or in none, whole.
Part FirstPart(Extent extent, const Areas& areas) {
  for (int i = 0; i < areas.size(); ++i) {
    const Run area = ToRun(areas[i]);
    const PoolBlock end = area.start + area.length_blocks;
    if (area.pool != extent.pool || end <= extent.pool_block) continue;
    if (area.start <= extent.pool_block) {
      extent.length_blocks = std::min(extent.length_blocks, end - extent.pool_block);
      return {extent, i};
    }
    extent.length_blocks = std::min(extent.length_blocks, area.start - extent.pool_block);
  }
  return {extent, std::nullopt};
}

// On the LUNs, whatever lies between them in the file.
bool Continues(const Extent& before, const Extent& extent) {
  return before.pool == extent.pool &&
         before.pool_block + before.length_blocks == extent.pool_block;
}

}  // namespace

std::uint64_t PiecesOf(const std::vector<Extent>& extents) {
  std::uint64_t pieces = 0;
  const Extent* last = nullptr;
  for (const Extent& extent : extents) {
    if (last == nullptr || !Continues(*last, extent)) ++pieces;
    last = &extent;
  }
  return pieces;
}

std::uint64_t SumOf(const std::vector<Extent>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Extent& e) { return sum + e.length_blocks; });
}

std::vector<Extent> Front(const std::vector<Extent>& extents, std::uint64_t length_blocks) {
  std::vector<Extent> front;
  for (const Extent& extent : extents) {
    if (length_blocks == 0 || front.size() == kMaxPieces) break;
    front.push_back(extent);
    front.back().length_blocks = std::min(extent.length_blocks, length_blocks);
    length_blocks -= front.back().length_blocks;
  }
  return front;
}

std::vector<Extent> PartOf(const std::vector<Extent>& extents, TokenSpan range) {
  std::vector<Extent> part;
  for (Extent extent : extents) {
    const FileBlock from = std::max(extent.file_block, range.first);
    const FileBlock to = std::min(extent.end(), range.end);
    if (from >= to) continue;
    extent.pool_block = extent.pool_block + (from - extent.file_block);
    extent.file_block = from;
    extent.length_blocks = to - from;
    part.push_back(extent);
  }
  return part;
}

std::vector<Extent> UntilOddHole(std::vector<Extent> extents, std::uint64_t unit_blocks) {
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if ((extents[i].file_block - extents[i - 1].end()) % unit_blocks == 0) continue;
    extents.resize(i);
    break;
  }
  return extents;
}

std::vector<Part> PartsOf(const std::vector<Extent>& extents, const Areas& areas) {
  std::vector<Part> parts;
  for (Extent rest : extents) {
    while (rest.length_blocks > 0) {
      parts.push_back(FirstPart(rest, areas));
      rest = From(rest, parts.back().extent.length_blocks);
    }
  }
  return parts;
}

std::vector<std::vector<Part>> InPieces(const std::vector<Part>& parts) {
  std::vector<std::vector<Part>> pieces;
  for (const Part& part : parts) {
    const Part* before = pieces.empty() ? nullptr : &pieces.back().back();
    const bool follows = before != nullptr && before->extent.end() == part.extent.file_block &&
                         Continues(before->extent, part.extent);
    if (!follows) pieces.emplace_back();
    pieces.back().push_back(part);
  }
  return pieces;
}

}  // namespace reel::mdc
