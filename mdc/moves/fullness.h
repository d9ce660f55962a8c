// How full the stripe sets of a pool are, beside each other: what a rebalance goes by.
//
// A closed set takes no part: nothing comes there, and a drain empties it. Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mdc/base/ids.h"
#include "mdc/space/allocator.h"
#include "mdc/space/areas.h"
#include "proto/records.pb.h"

namespace reel::mdc {

// In what is moved at random, this is the lot of a place in a pass: millionths, the same each time.
std::uint32_t ChanceOf(InodeNumber inode, std::uint64_t place, std::uint32_t pass);

// Fills `job` with the areas of stripe sets that are fuller than their pool is, and the shares of
// them that are to go. `pool`: only of that one. False: nothing is to be done.
bool FindUneven(const std::vector<Allocator::SetSpace>& sets, std::optional<PoolId> pool,
                v1::JobRecord& job);

class Fullness {
 public:
  // `areas`: what FindUneven has found.
  Fullness(std::vector<Allocator::SetSpace> sets, const Areas& areas);

  // That area is fuller than its pool, still.
  bool IsAbove(int area) const;
  // The set of the pool, none of the areas, to which more is to go: the one that has the request's
  // goal, else the emptiest. nullopt: all are full enough.
  std::optional<Run> Emptiest(PoolId pool, const AllocationRequest& request) const;

 private:
  std::vector<Allocator::SetSpace> sets_;
  std::vector<Run> areas_;
};

}  // namespace reel::mdc
