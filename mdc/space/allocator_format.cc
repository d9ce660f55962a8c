// The free space of a volume that is made.
#include <algorithm>
#include <utility>

#include "mdc/metadb/schema.h"
#include "mdc/space/allocator.h"
#include "mdc/space/areas.h"
#include "proto/records.pb.h"

namespace reel::mdc {

void Allocator::Format(const VolumeDescriptor& descriptor, const std::vector<Run>& used,
                       WriteBatch& batch) {
  for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
    if ((descriptor.pools[i].flags & Pool::kData) == 0) continue;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // start, end
    for (const Run& run : used) {
      if (run.pool != PoolId(i)) continue;
      taken.emplace_back(run.start.value(), run.start.value() + run.length_blocks);
    }
    for (const Run& gap : GapsOf(descriptor, PoolId(i))) {
      taken.emplace_back(gap.start.value(), gap.start.value() + gap.length_blocks);
    }
    const std::uint64_t size = descriptor.pools[i].size_blocks();
    taken.emplace_back(size, size);
    std::sort(taken.begin(), taken.end());
    std::uint64_t next = 0;
    for (const auto& [start, end] : taken) {
      if (start > next) {
        v1::FreeRecord record;
        record.set_length_blocks(start - next);
        batch.Put(schema::FreeKey(PoolId(i), PoolBlock(next)), record.SerializeAsString());
      }
      next = std::max(next, end);
    }
  }
}

}  // namespace reel::mdc
