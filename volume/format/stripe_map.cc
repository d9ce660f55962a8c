#include "volume/format/stripe_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel {

StripeMap::StripeMap(const VolumeDescriptor& descriptor) : StripeMap(descriptor, {}) {}

StripeMap::StripeMap(const VolumeDescriptor& descriptor, std::span<const std::uint32_t> numbers)
    : block_bytes_(descriptor.block_bytes) {
  for (const Pool& pool : descriptor.pools) {
    PoolGeometry& geometry = pools_.emplace_back();
    geometry.size_blocks = 0;
    for (const StripeSet& stripe_set : pool.sets) {
      Set& set = geometry.sets.emplace_back();
      set.first_block = geometry.size_blocks;
      set.size_blocks = pool.BlocksOf(stripe_set);
      set.breadth_blocks = pool.BreadthOf(stripe_set);
      for (const LunEntry& lun : stripe_set.luns) {
        const std::size_t index = lun_count_++;
        set.luns.push_back(numbers.empty() ? static_cast<std::uint32_t>(index) : numbers[index]);
        set.data_start_bytes.push_back(lun.data_start_bytes);
      }
      geometry.size_blocks += set.size_blocks;
    }
  }
}

const StripeMap::Set& StripeMap::SetOf(const PoolGeometry& pool, PoolBlock block) const {
  const auto after = std::ranges::upper_bound(pool.sets, block.value(), {}, &Set::first_block);
  return *std::prev(after);
}

absl::Status StripeMap::Map(PoolId pool, PoolBlock block, std::uint64_t offset_bytes,
                            std::uint64_t length_bytes, std::vector<LunRange>& lun_ranges) const {
  if (pool.value() >= pools_.size()) {
    return absl::OutOfRangeError(absl::StrCat("the volume has no pool ", pool.value()));
  }
  const PoolGeometry& geometry = pools_[pool.value()];
  // Nothing overflows below: a pool holds at most 2^60 bytes, and `room` bounds the rest.
  const std::uint64_t room = block.value() <= geometry.size_blocks
                                 ? (geometry.size_blocks - block.value()) * block_bytes_
                                 : 0;
  if (block.value() > geometry.size_blocks || offset_bytes > room ||
      length_bytes > room - offset_bytes) {
    return absl::OutOfRangeError(absl::StrCat(length_bytes, " bytes at block ", block.value(),
                                              " + ", offset_bytes, " lie beyond the end of pool ",
                                              pool.value(), " at block ", geometry.size_blocks));
  }
  if (length_bytes == 0) return absl::OkStatus();
  std::uint64_t at = block.value() * block_bytes_ + offset_bytes;
  const Set* set = &SetOf(geometry, PoolBlock(at / block_bytes_));
  const std::size_t before = lun_ranges.size();
  while (length_bytes > 0) {
    if (set->luns.empty()) {
      lun_ranges.resize(before);
      return absl::OutOfRangeError(absl::StrCat("block ", at / block_bytes_, " of pool ",
                                                pool.value(), " is not there any more"));
    }
    const std::uint64_t in_set = at - set->first_block * block_bytes_;
    const std::uint64_t take = std::min(length_bytes, set->size_blocks * block_bytes_ - in_set);
    MapWithin(*set, in_set, take, lun_ranges);
    at += take;
    length_bytes -= take;
    ++set;
  }
  return absl::OkStatus();
}

void StripeMap::MapWithin(const Set& set, std::uint64_t offset_bytes, std::uint64_t length_bytes,
                          std::vector<LunRange>& lun_ranges) const {
  const std::uint64_t unit_bytes = std::uint64_t{set.breadth_blocks} * block_bytes_;
  const auto luns = static_cast<std::uint32_t>(set.data_start_bytes.size());
  if (luns == 1) {  // its rows follow each other without a gap
    lun_ranges.push_back({set.luns[0], set.data_start_bytes[0] + offset_bytes, length_bytes});
    return;
  }
  // Two divisions for the first unit; the units after it only step on.
  const std::uint64_t unit = offset_bytes / unit_bytes;
  std::uint64_t in_unit = offset_bytes % unit_bytes;
  std::uint64_t row_start = unit / luns * unit_bytes;
  auto lun = static_cast<std::uint32_t>(unit % luns);
  while (length_bytes > 0) {
    const std::uint64_t take = std::min(length_bytes, unit_bytes - in_unit);
    lun_ranges.push_back({set.luns[lun], set.data_start_bytes[lun] + row_start + in_unit, take});
    length_bytes -= take;
    in_unit = 0;
    if (++lun == luns) {
      lun = 0;
      row_start += unit_bytes;
    }
  }
}

std::uint64_t StripeMap::stripe_blocks(PoolId pool, PoolBlock block) const {
  const Set& set = SetOf(pools_[pool.value()], block);
  return std::max<std::uint64_t>(set.luns.size() * set.breadth_blocks, 1);
}

}  // namespace reel
