#include "mdc/space/areas.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel::mdc {
namespace {

bool Before(const Run& a, const Run& b) {
  return a.pool != b.pool ? a.pool < b.pool : a.start < b.start;
}

void Store(std::vector<Run> runs, Areas& areas) {
  std::ranges::sort(runs, Before);
  areas.Clear();
  for (const Run& run : runs) {
    v1::Area* const last = areas.empty() ? nullptr : &*areas.rbegin();
    if (last != nullptr && last->pool() == run.pool.value() &&
        last->first_block() + last->length_blocks() == run.start.value()) {
      last->set_length_blocks(last->length_blocks() + run.length_blocks);
      continue;
    }
    v1::Area& area = *areas.Add();
    area.set_pool(run.pool.value());
    area.set_first_block(run.start.value());
    area.set_length_blocks(run.length_blocks);
  }
}

std::vector<Run> ThoseOf(const VolumeDescriptor& descriptor, PoolId pool, bool gaps) {
  const std::vector<StripeSet>& sets = descriptor.pools[pool.value()].sets;
  const std::vector<Run> all = SetsOf(descriptor, pool);
  std::vector<Run> those;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].is_gap() == gaps) those.push_back(all[i]);
  }
  return those;
}

}  // namespace

absl::StatusOr<PoolId> PoolNamed(const VolumeDescriptor& descriptor, const std::string& name) {
  for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
    const Pool& pool = descriptor.pools[i];
    if (pool.name == name && !pool.is_removed()) return PoolId(i);
  }
  return absl::NotFoundError(absl::StrCat("volume ", descriptor.name, " has no pool ", name,
                                          "; \"reeladm show\" lists them"));
}

std::vector<Run> SetsOf(const VolumeDescriptor& descriptor, PoolId pool) {
  const Pool& whole = descriptor.pools[pool.value()];
  std::vector<Run> sets;
  PoolBlock start(0);
  for (const StripeSet& set : whole.sets) {
    const std::uint64_t length = whole.BlocksOf(set);
    sets.push_back({pool, start, length});
    start = start + length;
  }
  return sets;
}

std::vector<Run> GapsOf(const VolumeDescriptor& descriptor, PoolId pool) {
  return ThoseOf(descriptor, pool, /*gaps=*/true);
}

std::vector<Run> LiveSetsOf(const VolumeDescriptor& descriptor, PoolId pool) {
  return ThoseOf(descriptor, pool, /*gaps=*/false);
}

std::vector<Run> Without(const std::vector<Run>& runs, const Run& run) {
  const PoolBlock end = run.start + run.length_blocks;
  std::vector<Run> left;
  for (const Run& one : runs) {
    const PoolBlock one_end = one.start + one.length_blocks;
    if (one.pool != run.pool || one_end <= run.start || end <= one.start) {
      left.push_back(one);
      continue;
    }
    if (one.start < run.start) left.push_back({one.pool, one.start, run.start - one.start});
    if (end < one_end) left.push_back({one.pool, end, one_end - end});
  }
  return left;
}

Run ToRun(const v1::Area& area) {
  return {PoolId(area.pool()), PoolBlock(area.first_block()), area.length_blocks()};
}

std::vector<Run> ToRuns(const Areas& areas) {
  std::vector<Run> runs;
  for (const v1::Area& area : areas) runs.push_back(ToRun(area));
  return runs;
}

bool Covers(const Areas& areas, const Run& run) {
  std::vector<Run> rest{run};
  for (const v1::Area& area : areas) rest = Without(rest, ToRun(area));
  return rest.empty();
}

void AddTo(Areas& areas, const Run& run) {
  std::vector<Run> runs = Without(ToRuns(areas), run);
  runs.push_back(run);
  Store(std::move(runs), areas);
}

void RemoveFrom(Areas& areas, const Run& run) {
  Store(Without(ToRuns(areas), run), areas);
}

}  // namespace reel::mdc
