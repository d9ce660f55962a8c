// Extents of a file, cut: by length, by areas of blocks, by ranges of the file.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mdc/space/areas.h"
#include "proto/token_ranges.h"
#include "volume/format/extent_map.h"

namespace reel::mdc {

// Of a range that is moved at once; each is a record to change in one commit.
inline constexpr std::size_t kMaxPieces = 256;

// The pieces in which the extents lie on the LUNs.
std::uint64_t PiecesOf(const std::vector<Extent>& extents);
std::uint64_t SumOf(const std::vector<Extent>& extents);  // blocks

// The first extents, as many as sum to `length_blocks`, the last one cut; kMaxPieces at most.
std::vector<Extent> Front(const std::vector<Extent>& extents, std::uint64_t length_blocks);
// What of the extents lies in that range of the file.
std::vector<Extent> PartOf(const std::vector<Extent>& extents, TokenSpan range);
// The first extents, up to a hole that is no whole number of units: laid one behind the other,
// their blocks are as far from a multiple of the unit as they are in the file.
std::vector<Extent> UntilOddHole(std::vector<Extent> extents, std::uint64_t unit_blocks);

// An extent that lies whole in one of the areas (which one), or in none.
struct Part {
  Extent extent;
  std::optional<int> area;
};
// The same extents, cut where areas begin and end.
std::vector<Part> PartsOf(const std::vector<Extent>& extents, const Areas& areas);
// The same parts; those together that follow each other in the file and in the pool.
std::vector<std::vector<Part>> InPieces(const std::vector<Part>& parts);

}  // namespace reel::mdc
