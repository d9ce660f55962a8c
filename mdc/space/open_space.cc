#include "mdc/space/open_space.h"

#include <algorithm>
#include <string>

#include "mdc/metadb/schema.h"

namespace reel::mdc {
namespace {

// How many blocks of the pool are open.
std::uint64_t OpenBlocks(const VolumeDescriptor& descriptor, const v1::VolumeRecord& volume,
                         std::size_t pool) {
  const Pool& whole = descriptor.pools[pool];
  const bool all = volume.open_blocks().empty() || (whole.flags & Pool::kData) == 0;
  if (all) return whole.size_blocks();
  const auto index = static_cast<int>(pool);
  return index < volume.open_blocks_size() ? volume.open_blocks(index) : 0;
}

}  // namespace

VolumeDescriptor OpenPart(const VolumeDescriptor& descriptor, const v1::VolumeRecord& volume) {
  VolumeDescriptor open = descriptor;
  for (std::size_t i = 0; i < open.pools.size(); ++i) {
    Pool& pool = open.pools[i];
    std::uint64_t left = OpenBlocks(descriptor, volume, i);
    std::size_t sets = 0;
    while (sets < pool.sets.size() && pool.BlocksOf(pool.sets[sets]) <= left) {
      left -= pool.BlocksOf(pool.sets[sets++]);
    }
    // (The last one was given more rows.)
    if (sets < pool.sets.size() && left > 0) {
      StripeSet& part = pool.sets[sets++];
      part.rows = left / (std::uint64_t{pool.BreadthOf(part)} * part.luns.size());
    }
    pool.sets.resize(sets);
  }
  return open;
}

VolumeDescriptor OpenPart(const VolumeDescriptor& descriptor, const MetaDb& db) {
  std::string bytes;
  v1::VolumeRecord volume;
  const auto found = db.Get(schema::VolumeKey(), &bytes, Tier::kAll);
  const bool known = found.ok() && *found == Found::kYes && volume.ParseFromString(bytes);
  return OpenPart(descriptor, known ? volume : v1::VolumeRecord());
}

std::vector<Run> UnopenedRuns(const VolumeDescriptor& descriptor, const v1::VolumeRecord& volume) {
  const VolumeDescriptor open = OpenPart(descriptor, volume);
  std::vector<Run> runs;
  for (std::uint32_t i = 0; i < open.pools.size(); ++i) {
    const std::uint64_t from = open.pools[i].size_blocks(), to = descriptor.pools[i].size_blocks();
    if (from < to) runs.push_back({PoolId(i), PoolBlock(from), to - from});
  }
  return runs;
}

void SetAllOpen(const VolumeDescriptor& descriptor, v1::VolumeRecord& volume) {
  volume.clear_open_blocks();
  for (const Pool& pool : descriptor.pools) volume.add_open_blocks(pool.size_blocks());
}

}  // namespace reel::mdc
