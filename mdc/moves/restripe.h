// Restriping: a pool gets another stripe breadth on the LUNs that it has, slice by slice.
//
//   choose a slice: the first rows of a set with another breadth ─closed─► empty it (moves)
//     ▲                                                                        │ all of it is free
//     └── its rows are at the end of the pool, with the new breadth ◄─ the map changes ─┘
// The blocks of a slice leave the pool's addresses for good (a gap), and its bytes come back under
// new ones. So two maps of a volume never differ in where a block lies that both have.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "mdc/base/ids.h"
#include "mdc/space/allocator.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

// A slice that is empty: it is to be the end of its pool, with that breadth.
struct RestripeOrder {
  JobId job;
  Run slice;
  std::uint32_t breadth_blocks = 0;
};

// INVALID_ARGUMENT, FAILED_PRECONDITION: why a pool cannot have that breadth.
absl::Status CheckBreadth(const VolumeDescriptor& descriptor, PoolId pool,
                          std::uint64_t breadth_bytes);

// The next slice: as large as there is room in the pool for what it holds. nullopt: the pool has
// the breadth everywhere. RESOURCE_EXHAUSTED: there is too little room, and how much is needed.
absl::StatusOr<std::optional<Run>> NextSlice(const VolumeDescriptor& descriptor, PoolId pool,
                                             std::uint32_t breadth_blocks,
                                             const Allocator& allocator);

// The next generation of the map. FAILED_PRECONDITION: the slice is not the first rows of a set.
absl::StatusOr<VolumeDescriptor> Restriped(const VolumeDescriptor& before,
                                           const RestripeOrder& order);

}  // namespace reel::mdc
