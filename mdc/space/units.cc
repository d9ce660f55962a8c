#include "mdc/space/units.h"

namespace reel::mdc {

std::vector<std::uint64_t> UnitsOf(const v1::VolumeRecord& volume) {
  std::vector<std::uint64_t> units;
  for (const std::uint64_t blocks : volume.unit_blocks()) {
    units.push_back(IsPowerOfTwo(blocks) ? blocks : 1);
  }
  return units;
}

void SetUnit(PoolId pool, std::uint64_t unit_blocks, v1::VolumeRecord& volume) {
  const auto index = static_cast<int>(pool.value());
  while (volume.unit_blocks_size() <= index) volume.add_unit_blocks(0);
  volume.set_unit_blocks(index, static_cast<std::uint32_t>(unit_blocks));
}

}  // namespace reel::mdc
