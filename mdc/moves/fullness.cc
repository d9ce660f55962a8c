#include "mdc/moves/fullness.h"

#include <algorithm>
#include <utility>

namespace reel::mdc {
namespace {

using SetSpace = Allocator::SetSpace;

constexpr std::uint32_t kMillion = 1'000'000;
// Sets that differ from the mean by less are equally full: this part of a set.
constexpr double kTolerance = 0.01;

std::uint64_t Used(const SetSpace& set) {
  return set.area.length_blocks - set.stored_free_blocks;
}

double FullOf(const SetSpace& set) {
  return static_cast<double>(Used(set)) / static_cast<double>(set.area.length_blocks);
}

// Of the pool's sets that are not closed, as a part of them.
double Mean(const std::vector<SetSpace>& sets, PoolId pool) {
  std::uint64_t used = 0, all = 0;
  for (const SetSpace& set : sets) {
    if (set.area.pool != pool || set.closed) continue;
    used += Used(set);
    all += set.area.length_blocks;
  }
  return all == 0 ? 0.0 : static_cast<double>(used) / static_cast<double>(all);
}

}  // namespace

std::uint32_t ChanceOf(InodeNumber inode, std::uint64_t place, std::uint32_t pass) {
  // (splitmix64's last steps: neighbours have lots that have nothing to do with each other.)
  std::uint64_t x = (inode.value() * 0x9E3779B97F4A7C15U + place) * 8 + pass;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) % kMillion);
}

bool FindUneven(const std::vector<SetSpace>& sets, std::optional<PoolId> pool, v1::JobRecord& job) {
  job.clear_areas();
  job.clear_shares();
  for (const SetSpace& set : sets) {
    if (set.closed || (pool && set.area.pool != *pool)) continue;
    const double mean = Mean(sets, set.area.pool), full = FullOf(set);
    if (full <= mean + kTolerance) continue;
    v1::Area& area = *job.add_areas();
    area.set_pool(set.area.pool.value());
    area.set_first_block(set.area.start.value());
    area.set_length_blocks(set.area.length_blocks);
    job.add_shares(static_cast<std::uint32_t>((full - mean) / full * kMillion));
  }
  return !job.areas().empty();
}

Fullness::Fullness(std::vector<SetSpace> sets, const Areas& areas)
    : sets_(std::move(sets)), areas_(ToRuns(areas)) {}

bool Fullness::IsAbove(int area) const {
  const Run& run = areas_[static_cast<std::size_t>(area)];
  const auto set = std::ranges::find(sets_, run, &SetSpace::area);
  return set != sets_.end() && !set->closed && FullOf(*set) > Mean(sets_, run.pool);
}

std::optional<Run> Fullness::Emptiest(PoolId pool, const AllocationRequest& request) const {
  const double mean = Mean(sets_, pool);
  const SetSpace* best = nullptr;
  for (const SetSpace& set : sets_) {
    const bool open = set.area.pool == pool && !set.closed && FullOf(set) < mean &&
                      std::ranges::find(areas_, set.area) == areas_.end();
    if (!open) continue;
    const bool follows = request.has_goal && request.goal_pool == pool &&
                         set.area.start < request.goal_block &&
                         request.goal_block < set.area.start + set.area.length_blocks;
    if (follows) return set.area;
    if (best == nullptr || FullOf(set) < FullOf(*best)) best = &set;
  }
  if (best == nullptr) return std::nullopt;
  return best->area;
}

}  // namespace reel::mdc
