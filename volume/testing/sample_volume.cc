#include "volume/testing/sample_volume.h"

#include "absl/strings/str_cat.h"
#include "volume/format/label.h"

namespace reel {

Uuid SampleUuid(std::uint8_t n) {
  Uuid uuid;
  uuid.bytes[15] = n;
  return uuid;
}

VolumeDescriptor SampleVolume(const std::vector<SamplePool>& pools, std::uint32_t block_bytes) {
  VolumeDescriptor volume;
  volume.volume = SampleUuid(200);
  volume.name = "studio";
  volume.generation = 1;
  volume.block_bytes = block_bytes;
  volume.created_seconds = 1'700'000'000;
  volume.seat_lun = SampleUuid(1);
  std::uint8_t lun_number = 0;
  for (const SamplePool& shape : pools) {
    Pool& pool = volume.pools.emplace_back();
    pool.name = absl::StrCat("pool", volume.pools.size() - 1);
    pool.flags = Pool::kMetadata | Pool::kData;
    pool.breadth_blocks = shape.breadth_blocks;
    for (const SampleSet& set_shape : shape.sets) {
      StripeSet& set = pool.sets.emplace_back();
      set.rows = set_shape.rows;
      for (std::size_t i = 0; i < set_shape.luns; ++i) {
        LunEntry& lun = set.luns.emplace_back();
        lun.name = absl::StrCat("lun", lun_number);
        lun.lun = SampleUuid(++lun_number);
        lun.data_start_bytes = kReservedBytes;
      }
    }
  }
  return volume;
}

}  // namespace reel
