// From a description and the facts of its LUNs to a volume descriptor: where data begin on each
// LUN, how many rows a stripe set has, and which blocks the metadata store gets.
//
// Rules (docs/format.md, docs/operations.md):
//   1, 2: those of a stripe set (volume/join/new_set.h).
//   3. A metadata-only pool belongs to the store up to kMaxOwnRegionBytes. In a pool shared with
//   data it
//      begins with 1/64 of it, at least 256 MiB where that is no more than a quarter of the pool,
//      at most 8 GiB.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/env.h"
#include "volume/base/uuid.h"
#include "volume/format/descriptor.h"
#include "volume/join/new_set.h"

namespace reel::tools {

inline constexpr std::uint64_t kMinSharedRegionBytes = 256 * kMiB;
inline constexpr std::uint64_t kMaxSharedRegionBytes = 8 * kGiB;
inline constexpr std::uint64_t kMaxOwnRegionBytes = 64 * kGiB;

struct LunGeometry {
  LunFacts facts;
  std::uint64_t data_start_bytes = 0;
  std::uint64_t used_bytes = 0;  // of its data area
  std::uint64_t unequal_bytes =
      0;  // whole stripe units that a smaller LUN of the set makes useless
};

struct Geometry {
  VolumeDescriptor descriptor;
  std::vector<std::vector<LunGeometry>> luns;  // by pool
  PoolId region_pool;
  std::uint64_t region_blocks = 0;  // from block 0 of region_pool on

  std::uint64_t data_bytes() const;  // what files can get
};

struct GeometryRequest {
  const VolumeDescription& description;
  const std::vector<std::vector<LunFacts>>& luns;  // by pool, in the description's order
  std::uint64_t min_region_blocks = 1;             // what the metadata store needs
  Uuid volume;
  WallTime now;
};

// A pool of metadata alone, by itself, as ComputeGeometry would make it.
struct MetadataPool {
  Pool pool;
  std::uint64_t region_blocks = 0;
};
// INVALID_ARGUMENT says what is too small. REQUIRES: the pool has no data flag.
absl::StatusOr<MetadataPool> ComputeMetadataPool(const PoolDescription& from,
                                                 const std::vector<LunFacts>& luns,
                                                 std::uint64_t block_bytes,
                                                 std::uint64_t min_region_blocks);

// INVALID_ARGUMENT says which LUN or pool is too small, or what does not fit together.
absl::StatusOr<Geometry> ComputeGeometry(const GeometryRequest& request);

}  // namespace reel::tools
