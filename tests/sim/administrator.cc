#include "tests/sim/administrator.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

v1::StartJobRequest JobOf(v1::JobKind kind, const std::string& pool = "") {
  v1::StartJobRequest request;
  request.set_kind(kind);
  request.set_pool(pool);
  return request;
}

// Of the second pool: those that it has, or those that nobody has.
std::vector<std::string> Luns(const VolumeDescriptor& map, bool used) {
  std::vector<std::string> luns;
  for (const Disk* disk : LunRack::Get().disks) {
    bool has = false, elsewhere = false;
    for (const Pool& pool : map.pools) {
      for (const StripeSet& set : pool.sets) {
        if (std::ranges::find(set.luns, disk->name(), &LunEntry::name) == set.luns.end()) continue;
        (pool.name == kDataPool ? has : elsewhere) = true;
      }
    }
    if (!elsewhere && has == used) luns.push_back(disk->name());
  }
  return luns;
}

// Without a LUN, or with another one in its place.
v1::StartJobRequest Removal(const VolumeDescriptor& map, bool replaced, Random& random) {
  v1::StartJobRequest request = JobOf(v1::JOB_RESTRIPE);
  request.set_remove(true);
  const std::vector<std::string> used = Luns(map, true), free = Luns(map, false);
  request.set_lun(used.empty() ? "none" : used[random.Below(used.size())]);
  if (!replaced || free.empty()) return request;
  request.set_with(free[random.Below(free.size())]);
  request.add_force(request.with());
  return request;
}

void ChangeAny(Daemon& daemon, Random& random) {
  constexpr v1::JobState kStates[] = {v1::JOB_PAUSED, v1::JOB_RUNNING, v1::JOB_RUNNING,
                                      v1::JOB_CANCELLED};
  daemon.ChangeJobs(kStates[random.Below(std::size(kStates))]);
}

// Another block size of a pool.
v1::StartJobRequest Align(const VolumeDescriptor& map, const std::string& pool, Random& random) {
  v1::StartJobRequest request = JobOf(v1::JOB_ALIGN, pool);
  request.set_block_bytes(std::uint64_t{map.block_bytes} << random.Below(4));
  return request;
}

// What leaves the map as it is.
void MoveWithin(Daemon& daemon, const VolumeDescriptor& map, const std::string& pool,
                Random& random) {
  switch (random.Below(3)) {
    case 0:
      return daemon.StartJob(JobOf(v1::JOB_DEFRAGMENT));
    case 1:
      return daemon.StartJob(JobOf(v1::JOB_COMPACT));
    default:
      return daemon.StartJob(Align(map, pool, random));
  }
}

// A stripe set is emptied, opened again, and has its share again.
void Even(Daemon& daemon, const VolumeDescriptor& map, Random& random) {
  v1::StartJobRequest drain = JobOf(v1::JOB_DRAIN);
  switch (random.Below(5)) {
    case 0: {
      const std::vector<std::string> used = Luns(map, true);
      if (!used.empty()) drain.set_lun(used[random.Below(used.size())]);
      return daemon.StartJob(drain);
    }
    case 1:
    case 2:
      return daemon.OpenPool(kDataPool);
    default:
      return daemon.StartJob(JobOf(v1::JOB_REBALANCE));
  }
}

void MoveAny(Daemon& daemon, const VolumeDescriptor& map, Random& random) {
  v1::StartJobRequest restripe = JobOf(v1::JOB_RESTRIPE, kDataPool);
  switch (random.Below(10)) {
    case 0:
      return daemon.StartJob(JobOf(v1::JOB_REBALANCE));
    case 1:
      return daemon.StartJob(JobOf(v1::JOB_DRAIN, kDataPool));
    case 2:
    case 3:
      return daemon.OpenPool(kDataPool);
    case 4:
    case 5:
    case 6:
      return daemon.StartJob(Removal(map, /*replaced=*/random.Below(8) != 0, random));
    case 7:
      return ChangeAny(daemon, random);
    default:
      restripe.set_breadth_bytes(std::uint64_t{map.block_bytes} << random.Below(5));
      return daemon.StartJob(restripe);
  }
}

}  // namespace

void Administer(Daemon& daemon, Shape shape, Random& random) {
  const std::optional<VolumeDescriptor> map = daemon.map();
  if (!map) return;
  if (shape == Shape::kOnePool || random.OneIn(4)) {
    const std::string& pool = map->pools[random.Below(map->pools.size())].name;
    return MoveWithin(daemon, *map, pool, random);
  }
  if (shape == Shape::kTwoSets && !random.OneIn(4)) return Even(daemon, *map, random);
  MoveAny(daemon, *map, random);
}

void StartScrub(Daemon& daemon, Random& random) {
  v1::StartJobRequest request = JobOf(v1::JOB_SCRUB);
  request.set_rate_records(random.OneIn(2) ? 0 : random.Between(500, 20'000));
  daemon.StartJob(request);
}

}  // namespace reel::sim
