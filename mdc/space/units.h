// The units of pools, as the volume record has them (VolumeRecord.unit_blocks): in how many blocks
// together files are laid there. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/records.pb.h"
#include "volume/base/types.h"

namespace reel::mdc {

// By pool, in blocks. What is no power of two, as in a damaged record, is 1.
std::vector<std::uint64_t> UnitsOf(const v1::VolumeRecord& volume);
// 0: none of its own.
void SetUnit(PoolId pool, std::uint64_t unit_blocks, v1::VolumeRecord& volume);

}  // namespace reel::mdc
