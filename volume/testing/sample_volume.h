// Small volume descriptors for tests, with fixed UUIDs, so that their bytes never change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volume/format/descriptor.h"

namespace reel {

// Fifteen zeros and then `n`, which is never 0 here.
Uuid SampleUuid(std::uint8_t n);

struct SampleSet {
  std::uint64_t rows;
  std::size_t luns;
};
struct SamplePool {
  std::uint32_t breadth_blocks;
  std::vector<SampleSet> sets;
};

// A valid volume named "studio" of these pools, each for metadata and data. LUNs are named lun0,
// lun1, … over the volume, have the UUIDs 1, 2, … and keep their data from 1 MiB on; the first is
// the seat.
VolumeDescriptor SampleVolume(const std::vector<SamplePool>& pools,
                              std::uint32_t block_bytes = 4096);

}  // namespace reel
