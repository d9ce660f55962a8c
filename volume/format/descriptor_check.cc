// ValidateDescriptor of descriptor.h: what makes a descriptor a volume.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"

namespace reel {
namespace {

constexpr std::uint64_t kMaxPoolBlocks = std::uint64_t{1} << 48;
constexpr std::uint32_t kAllPoolFlags = Pool::kMetadata | Pool::kData | Pool::kExclusive;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Walks a descriptor once, and remembers what must be unique.
class Checker {
 public:
  explicit Checker(const VolumeDescriptor& descriptor) : descriptor_(descriptor) {}

  absl::Status Check();

 private:
  // Where a LUN stands, and what of it is taken.
  struct Place {
    std::string name;
    std::size_t pool;
    std::map<std::uint64_t, std::uint64_t> taken;  // end byte, by first byte
  };
  absl::Status CheckHead() const;
  absl::Status CheckPool(std::size_t pool_index);
  absl::Status CheckSet(std::size_t pool_index, std::size_t set_index);
  absl::Status CheckLun(const LunEntry& lun, std::size_t pool_index, std::uint64_t lun_bytes);

  const VolumeDescriptor& descriptor_;
  std::map<Uuid, Place> places_;
  std::set<std::string> lun_names_;
  std::set<std::string> pool_names_;
  std::uint64_t volume_bytes_ = 0;
  std::uint64_t pool_blocks_ = 0;
  std::size_t pool_luns_ = 0;
  std::size_t volume_luns_ = 0;
};

absl::Status Checker::CheckHead() const {
  const VolumeDescriptor& d = descriptor_;
  if (d.volume.is_nil()) return Invalid("the volume has no UUID");
  if (absl::Status status = ValidateLunName(d.name); !status.ok()) {
    return Invalid("volume name: ", status.message());
  }
  if (d.generation == 0) return Invalid("generations begin at 1");
  if (!IsPowerOfTwo(d.block_bytes) || d.block_bytes < kMinBlockBytes ||
      d.block_bytes > kMaxBlockBytes) {
    return Invalid("block size ", d.block_bytes, " is not a power of two from ", kMinBlockBytes,
                   " to ", kMaxBlockBytes);
  }
  if (d.strategy > AllocationStrategy::kBalance) return Invalid("unknown allocation strategy");
  if (d.pools.empty() || d.pools.size() > kMaxPools) {
    return Invalid("a volume has 1 to ", kMaxPools, " pools, but this has ", d.pools.size());
  }
  return absl::OkStatus();
}

absl::Status Checker::Check() {
  if (absl::Status status = CheckHead(); !status.ok()) return status;
  std::uint32_t flags = 0;
  for (std::size_t i = 0; i < descriptor_.pools.size(); ++i) {
    if (absl::Status status = CheckPool(i); !status.ok()) return status;
    if (!descriptor_.pools[i].is_removed()) flags |= descriptor_.pools[i].flags;
  }
  if ((flags & Pool::kMetadata) == 0) return Invalid("no pool takes metadata");
  if ((flags & Pool::kData) == 0) return Invalid("no pool takes data");
  if (volume_luns_ > kMaxLunsPerVolume) {
    return Invalid(volume_luns_, " LUNs are more than the ", kMaxLunsPerVolume, " of a volume");
  }
  if (!places_.contains(descriptor_.seat_lun)) {
    return Invalid("the seat LUN ", descriptor_.seat_lun.ToString(), " is not one of the LUNs");
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckPool(std::size_t pool_index) {
  const Pool& pool = descriptor_.pools[pool_index];
  if (absl::Status status = ValidateLunName(pool.name); !status.ok()) {
    return Invalid("pool name: ", status.message());
  }
  if (!pool_names_.insert(pool.name).second) return Invalid("two pools are named ", pool.name);
  if ((pool.flags & ~kAllPoolFlags) != 0 || (pool.flags & (Pool::kMetadata | Pool::kData)) == 0) {
    return Invalid("pool ", pool.name, ": takes neither metadata nor data, or has unknown flags");
  }
  if (pool.breadth_blocks == 0) return Invalid("pool ", pool.name, ": the stripe breadth is 0");
  std::set<std::string> affinities;
  for (const std::string& affinity : pool.affinities) {
    if (absl::Status status = ValidateLunName(affinity); !status.ok()) {
      return Invalid("pool ", pool.name, ": affinity: ", status.message());
    }
    if (!affinities.insert(affinity).second) {
      return Invalid("pool ", pool.name, ": affinity ", affinity, " is given twice");
    }
  }
  const bool may_be_removed = !pool.sets.empty() && (pool.flags & Pool::kMetadata) == 0;
  if (pool.is_removed() && !may_be_removed) {
    return Invalid("pool ", pool.name, ": has no LUNs");
  }
  pool_blocks_ = 0;
  pool_luns_ = 0;
  for (std::size_t i = 0; i < pool.sets.size(); ++i) {
    if (absl::Status status = CheckSet(pool_index, i); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckSet(std::size_t pool_index, std::size_t set_index) {
  const Pool& pool = descriptor_.pools[pool_index];
  const StripeSet& set = pool.sets[set_index];
  const bool may_differ = (descriptor_.incompat & kIncompatSets) != 0;
  if ((set.is_gap() && !may_differ) || set.rows == 0) {
    return Invalid("pool ", pool.name, ": stripe set ", set_index, " is empty");
  }
  if (set.breadth_blocks != 0 && !may_differ) {
    return Invalid("pool ", pool.name, ": stripe set ", set_index, " has a breadth of its own");
  }
  pool_luns_ += set.luns.size();
  volume_luns_ += set.luns.size();
  if (pool_luns_ > kMaxLunsPerPool) {
    return Invalid("pool ", pool.name, ": has more than ", kMaxLunsPerPool, " LUNs");
  }
  std::uint64_t lun_blocks = 0;
  std::uint64_t set_blocks = 0;
  std::uint64_t set_bytes = 0;
  if (__builtin_mul_overflow(set.rows, set.is_gap() ? 1 : pool.BreadthOf(set), &lun_blocks) ||
      __builtin_mul_overflow(lun_blocks, set.is_gap() ? 1 : set.luns.size(), &set_blocks) ||
      set_blocks > kMaxPoolBlocks - pool_blocks_ ||
      __builtin_mul_overflow(set_blocks, descriptor_.block_bytes, &set_bytes) ||
      (!set.is_gap() && set_bytes > kMaxVolumeBytes - volume_bytes_)) {
    return Invalid("pool ", pool.name, ": stripe set ", set_index,
                   " exceeds what a pool or volume may hold");
  }
  pool_blocks_ += set_blocks;
  if (!set.is_gap()) volume_bytes_ += set_bytes;
  for (const LunEntry& lun : set.luns) {
    absl::Status status = CheckLun(lun, pool_index, lun_blocks * descriptor_.block_bytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckLun(const LunEntry& lun, std::size_t pool_index,
                               std::uint64_t lun_bytes) {
  if (absl::Status status = ValidateLunName(lun.name); !status.ok()) {
    return Invalid("LUN name: ", status.message());
  }
  if (lun.lun.is_nil()) return Invalid("LUN ", lun.name, ": has no UUID");
  if (lun.data_start_bytes < kReservedBytes || lun.data_start_bytes > kMaxVolumeBytes ||
      lun.data_start_bytes % descriptor_.block_bytes != 0) {
    return Invalid("LUN ", lun.name, ": data cannot start at byte ", lun.data_start_bytes);
  }
  const std::uint64_t end_bytes = lun.data_start_bytes + lun_bytes;  // both are <= 2^60
  const auto [known, is_new] = places_.try_emplace(lun.lun, Place{lun.name, pool_index, {}});
  if (is_new && !lun_names_.insert(lun.name).second) {
    return Invalid("two LUNs are named ", lun.name);
  }
  Place& place = known->second;
  const auto after = place.taken.lower_bound(lun.data_start_bytes);
  const bool overlaps =
      (after != place.taken.end() && after->first < end_bytes) ||
      (after != place.taken.begin() && std::prev(after)->second > lun.data_start_bytes);
  if (place.name != lun.name || place.pool != pool_index || overlaps) {
    return Invalid("LUN ", lun.name, ": its UUID ", lun.lun.ToString(), " is used twice");
  }
  place.taken.emplace(lun.data_start_bytes, end_bytes);
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateDescriptor(const VolumeDescriptor& descriptor) {
  return Checker(descriptor).Check();
}

}  // namespace reel
