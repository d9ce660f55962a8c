#include "volume/bandwidth/lun_sets.h"

#include <algorithm>
#include <map>

namespace reel {

std::vector<LunSetId> LunSetsOf(const VolumeDescriptor& descriptor) {
  std::vector<LunSetId> sets;
  for (std::uint32_t pool = 0; pool < descriptor.pools.size(); ++pool) {
    std::map<std::string, std::uint32_t> first;
    for (std::uint32_t set = 0; set < descriptor.pools[pool].sets.size(); ++set) {
      for (const LunEntry& lun : descriptor.pools[pool].sets[set].luns) {
        sets.push_back({pool, first.try_emplace(lun.lun.ToBytes(), set).first->second});
      }
    }
  }
  return sets;
}

LunSetId LunSetAt(const VolumeDescriptor& descriptor, PoolId id, PoolBlock block) {
  const Pool& pool = descriptor.pools[id.value()];
  std::uint64_t in_set = block.value();
  auto set = pool.sets.begin();
  while (set != pool.sets.end() && in_set >= pool.BlocksOf(*set)) in_set -= pool.BlocksOf(*set++);
  if (set == pool.sets.end() || set->is_gap()) return {id.value(), 0};
  const Uuid& lun = set->luns[in_set / pool.BreadthOf(*set) % set->luns.size()].lun;
  const auto first = std::find_if(pool.sets.begin(), set, [&](const StripeSet& one) {
    return std::any_of(one.luns.begin(), one.luns.end(),
                       [&](const LunEntry& entry) { return entry.lun == lun; });
  });
  return {id.value(), static_cast<std::uint32_t>(first - pool.sets.begin())};
}

std::vector<LunSetId> DataLunSets(const VolumeDescriptor& descriptor) {
  std::vector<LunSetId> sets = LunSetsOf(descriptor);
  sets.erase(std::remove_if(sets.begin(), sets.end(),
                            [&](const LunSetId& set) {
                              return (descriptor.pools[set.pool].flags & Pool::kData) == 0;
                            }),
             sets.end());
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

}  // namespace reel
