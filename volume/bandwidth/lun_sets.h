// LUN sets: the LUNs that share what a stripe set can carry, and by what name.
//
// Bandwidth is dealt out by LUN set (docs/internals/bandwidth.md). A LUN belongs to the first
// stripe set of its pool that has it: one that grew stands in a later set again, and carries no
// more for that. Threads: pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "volume/format/descriptor.h"

namespace reel {

struct LunSetId {
  std::uint32_t pool = 0;
  std::uint32_t stripe_set = 0;
  friend auto operator<=>(const LunSetId&, const LunSetId&) = default;
};

// By the stripe map's flat index of LUNs (volume/format/stripe_map.h).
std::vector<LunSetId> LunSetsOf(const VolumeDescriptor& descriptor);

// The one that a block of a pool lies on. REQUIRES: there is such a block.
LunSetId LunSetAt(const VolumeDescriptor& descriptor, PoolId pool, PoolBlock block);

// Those of the pools for data, in order.
std::vector<LunSetId> DataLunSets(const VolumeDescriptor& descriptor);

}  // namespace reel
