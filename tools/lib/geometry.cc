#include "tools/lib/geometry.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

struct PoolGeometry {
  Pool pool;
  std::vector<LunGeometry> luns;
};

absl::StatusOr<PoolGeometry> ComputePool(const PoolDescription& from,
                                         const std::vector<LunFacts>& luns,
                                         std::uint64_t block_bytes) {
  PoolGeometry result;
  result.pool.name = from.name;
  result.pool.flags = from.flags;
  result.pool.affinities = from.affinities;
  result.pool.breadth_blocks = static_cast<std::uint32_t>(from.breadth_bytes / block_bytes);

  auto made = MakeSet(luns, from.breadth_bytes, block_bytes);
  if (!made.ok()) {
    return absl::Status(made.status().code(), absl::StrCat(from.where, made.status().message()));
  }
  for (std::size_t i = 0; i < luns.size(); ++i) {
    result.luns.push_back({.facts = luns[i],
                           .data_start_bytes = made->set.luns[i].data_start_bytes,
                           .used_bytes = made->set.rows * from.breadth_bytes,
                           .unequal_bytes = made->unequal_units[i] * from.breadth_bytes});
  }
  result.pool.sets.push_back(std::move(made->set));
  return result;
}

// Rule 3; 0 when the pool is too small.
std::uint64_t RegionBlocks(const Pool& pool, std::uint64_t block_bytes, std::uint64_t min_blocks) {
  const std::uint64_t pool_blocks = pool.size_blocks();
  if ((pool.flags & Pool::kData) == 0) {
    return pool_blocks < min_blocks ? 0 : std::min(pool_blocks, kMaxOwnRegionBytes / block_bytes);
  }
  const std::uint64_t floor = std::min(kMinSharedRegionBytes / block_bytes, pool_blocks / 4);
  const std::uint64_t wanted =
      std::clamp(pool_blocks / 64, floor, kMaxSharedRegionBytes / block_bytes);
  const std::uint64_t blocks = std::max(wanted, min_blocks);
  // A pool that is more metadata than data is not what anybody asked for.
  return blocks > pool_blocks / 2 ? 0 : blocks;
}

absl::Status PoolTooSmall(const PoolDescription& from, const Pool& pool, std::uint64_t block_bytes,
                          std::uint64_t min_blocks) {
  const bool shared = (pool.flags & Pool::kData) != 0;
  return absl::InvalidArgumentError(absl::StrCat(
      from.where, "pool \"", pool.name,
      "\" is too small for metadata: ", FormatSize(pool.size_blocks() * block_bytes), ", at least ",
      FormatSize(min_blocks * block_bytes * (shared ? 2 : 1)), " are needed"));
}

absl::Status CheckMetadataPools(const VolumeDescription& description) {
  const PoolDescription* first = nullptr;
  bool data = false;
  for (const PoolDescription& pool : description.pools) {
    data |= (pool.flags & Pool::kData) != 0;
    if ((pool.flags & Pool::kMetadata) == 0) continue;
    if (first != nullptr && (pool.flags & Pool::kData) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(pool.where, "the metadata lie in the first metadata pool (\"", first->name,
                       "\"), so pool \"", pool.name,
                       "\" would stay unused; put its LUNs there or add the data flag"));
    }
    if (first == nullptr) first = &pool;
  }
  if (first == nullptr) return absl::InvalidArgumentError("no pool has the flag \"metadata\"");
  if (!data) return absl::InvalidArgumentError("no pool has the flag \"data\"");
  return absl::OkStatus();
}

absl::Status CheckDistinctLuns(const GeometryRequest& request) {
  std::set<Uuid> uuids;
  std::set<std::string> names;
  for (std::size_t i = 0; i < request.luns.size(); ++i) {
    for (const LunFacts& lun : request.luns[i]) {
      if (!uuids.insert(lun.uuid).second) {
        return absl::InvalidArgumentError(absl::StrCat(
            request.description.pools[i].where, "LUN ", lun.path,
            " is given twice, or is a copy of ", "another one (UUID ", lun.uuid.ToString(), ")"));
      }
      if (!names.insert(lun.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(request.description.pools[i].where, "LUN ", lun.path, " is named \"",
                         lun.name, "\" like another one; label it anew with reel-label"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::uint64_t Geometry::data_bytes() const {
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < descriptor.pools.size(); ++i) {
    if ((descriptor.pools[i].flags & Pool::kData) == 0) continue;
    blocks += descriptor.pools[i].size_blocks() - (region_pool.value() == i ? region_blocks : 0);
  }
  return blocks * descriptor.block_bytes;
}

absl::StatusOr<MetadataPool> ComputeMetadataPool(const PoolDescription& from,
                                                 const std::vector<LunFacts>& luns,
                                                 std::uint64_t block_bytes,
                                                 std::uint64_t min_region_blocks) {
  auto pool = ComputePool(from, luns, block_bytes);
  if (!pool.ok()) return pool.status();
  MetadataPool made{.pool = std::move(pool->pool)};
  made.region_blocks = RegionBlocks(made.pool, block_bytes, min_region_blocks);
  if (made.region_blocks == 0) {
    return PoolTooSmall(from, made.pool, block_bytes, min_region_blocks);
  }
  return made;
}

absl::StatusOr<Geometry> ComputeGeometry(const GeometryRequest& request) {
  const VolumeDescription& description = request.description;
  if (absl::Status status = CheckMetadataPools(description); !status.ok()) return status;
  if (absl::Status status = CheckDistinctLuns(request); !status.ok()) return status;

  Geometry geometry;
  VolumeDescriptor& descriptor = geometry.descriptor;
  descriptor.volume = request.volume;
  descriptor.name = description.name;
  descriptor.generation = 1;
  descriptor.block_bytes = static_cast<std::uint32_t>(description.block_bytes);
  descriptor.strategy = description.strategy;
  descriptor.created_seconds =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, request.now.seconds));

  bool found_region = false;
  for (std::size_t i = 0; i < description.pools.size(); ++i) {
    auto pool = ComputePool(description.pools[i], request.luns[i], description.block_bytes);
    if (!pool.ok()) return pool.status();
    if (!found_region && (pool->pool.flags & Pool::kMetadata) != 0) {
      found_region = true;
      geometry.region_pool = PoolId(static_cast<std::uint32_t>(i));
      geometry.region_blocks =
          RegionBlocks(pool->pool, description.block_bytes, request.min_region_blocks);
      if (geometry.region_blocks == 0) {
        return PoolTooSmall(description.pools[i], pool->pool, description.block_bytes,
                            request.min_region_blocks);
      }
      descriptor.seat_lun = pool->pool.sets[0].luns[0].lun;
    }
    descriptor.pools.push_back(std::move(pool->pool));
    geometry.luns.push_back(std::move(pool->luns));
  }
  if (absl::Status status = ValidateDescriptor(descriptor); !status.ok()) return status;
  return geometry;
}

}  // namespace reel::tools
