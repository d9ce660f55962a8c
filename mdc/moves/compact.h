// Compacting: what is free in a stripe set comes to lie together, at the set's end.
//
// What lies behind a boundary of the set goes into gaps before it, in one piece, or stays. The
// boundary is where what lies behind it has just enough room before it, so half of what is free
// moves at most, and each LUN keeps its share. Threads: pure functions.
#pragma once

#include <optional>

#include "mdc/base/ids.h"
#include "mdc/space/allocator.h"
#include "mdc/space/areas.h"
#include "proto/records.pb.h"

namespace reel::mdc {

// Fills the job's areas with the ends of stripe sets that are to become free; of sets that are
// whole enough: none. `pool`: only of that one.
void FindScattered(const Allocator& allocator, std::optional<PoolId> pool, v1::JobRecord& job);

// Where what lies in that end goes: the beginning of its set. nullopt: there is no such set now.
std::optional<Run> FrontOf(const Allocator& allocator, const Run& end);

}  // namespace reel::mdc
