#include "mdc/moves/compact.h"

#include <algorithm>

namespace reel::mdc {
namespace {

// Not every gap is filled: what is left of the room that there is.
constexpr std::uint64_t kRoomShare = 16;

Run Cut(const Run& set, std::uint64_t from, std::uint64_t to) {
  return {set.pool, set.start + from, to - from};
}

// Where the set is to be cut: what lies behind has room before it, and does not one block earlier.
std::uint64_t Boundary(const Allocator& allocator, const Run& set) {
  std::uint64_t from = 0, to = set.length_blocks;
  while (from < to) {
    const std::uint64_t middle = from + (to - from) / 2;
    const std::uint64_t room = allocator.free_in(Cut(set, 0, middle));
    const std::uint64_t behind = set.length_blocks - middle;
    const std::uint64_t used = behind - allocator.free_in(Cut(set, middle, set.length_blocks));
    if (used <= room - room / kRoomShare) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

}  // namespace

void FindScattered(const Allocator& allocator, std::optional<PoolId> pool, v1::JobRecord& job) {
  for (const Allocator::SetSpace& set : allocator.sets()) {
    if (set.closed || (pool && *pool != set.area.pool)) continue;
    const Run end = Cut(set.area, Boundary(allocator, set.area), set.area.length_blocks);
    if (end.length_blocks > allocator.free_in(end)) AddTo(*job.mutable_areas(), end);
  }
}

std::optional<Run> FrontOf(const Allocator& allocator, const Run& end) {
  for (const Allocator::SetSpace& set : allocator.sets()) {
    const bool inside = set.area.pool == end.pool && set.area.start < end.start &&
                        end.start < set.area.start + set.area.length_blocks;
    if (inside) return Cut(set.area, 0, end.start - set.area.start);
  }
  return std::nullopt;
}

}  // namespace reel::mdc
