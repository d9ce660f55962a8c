// Units: pieces of a file that are as long as its pool's block size, and lie at multiples of it.
//
// The volume's block is what can be allocated; a pool may have a larger block size on top of it, so
// that files there lie in few, large pieces. A unit lies well where its blocks follow each other
// from a multiple of the unit on. Another size is set for what is allocated from now on, and
// JOB_ALIGN moves what lies otherwise. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "proto/token_ranges.h"
#include "volume/format/descriptor.h"
#include "volume/format/extent_map.h"

namespace reel::mdc {

// INVALID_ARGUMENT, FAILED_PRECONDITION: why the pool cannot have that block size.
absl::Status CheckUnit(const VolumeDescriptor& descriptor, PoolId pool, std::uint64_t unit_bytes);

// The first units, one behind the other, of which a block in that pool does not lie well; of an
// empty list: none. `extents`: of one file, by their place in it.
std::optional<TokenSpan> FirstMisplaced(const std::vector<Extent>& extents, PoolId pool,
                                        std::uint64_t unit_blocks);

}  // namespace reel::mdc
