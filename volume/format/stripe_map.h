// The stripe map: (pool, block) → (LUN, byte offset), by arithmetic alone.
//
// Shared by client, MDC and tools; tested exhaustively. Within a set of n LUNs and breadth w, block
// b lies in stripe unit u = b / w, on LUN u mod n, in row u / n of that LUN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/base/types.h"
#include "volume/format/descriptor.h"

namespace reel {

// A contiguous range of one LUN.
struct LunRange {
  std::uint32_t lun = 0;  // flat index over the volume: pools, then sets, then LUNs, in order; or
                          // what the map's maker calls that one
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  friend bool operator==(const LunRange&, const LunRange&) = default;
};

class StripeMap {
 public:
  // REQUIRES: ValidateDescriptor(descriptor) is OK.
  explicit StripeMap(const VolumeDescriptor& descriptor);
  // The same with other numbers for the LUNs, by flat index. The flat indexes of a later map are
  // others: who keeps numbers of LUNs while maps change gives them himself. REQUIRES: one each.
  StripeMap(const VolumeDescriptor& descriptor, std::span<const std::uint32_t> numbers);

  // The pieces, in order, that hold bytes [offset, offset + length) counted from `block`'s start.
  // Appends to `lun_ranges`. OUT_OF_RANGE when any of it lies outside the pool, or in a gap;
  // `lun_ranges` is then as it was.
  absl::Status Map(PoolId pool, PoolBlock block, std::uint64_t offset_bytes,
                   std::uint64_t length_bytes, std::vector<LunRange>& lun_ranges) const;

  std::uint32_t lun_count() const { return static_cast<std::uint32_t>(lun_count_); }
  std::uint32_t block_bytes() const { return block_bytes_; }
  std::uint64_t pool_blocks(PoolId pool) const { return pools_[pool.value()].size_blocks; }
  // Blocks in one full stripe of the set that `block` lies in. REQUIRES: in range.
  std::uint64_t stripe_blocks(PoolId pool, PoolBlock block) const;

 private:
  struct Set {
    std::uint64_t first_block;
    std::uint64_t size_blocks;
    std::uint32_t breadth_blocks;
    std::vector<std::uint32_t> luns;              // none: a gap
    std::vector<std::uint64_t> data_start_bytes;  // by LUN of the set
  };
  struct PoolGeometry {
    std::uint64_t size_blocks;
    std::vector<Set> sets;
  };
  const Set& SetOf(const PoolGeometry& pool, PoolBlock block) const;
  void MapWithin(const Set& set, std::uint64_t offset_bytes, std::uint64_t length_bytes,
                 std::vector<LunRange>& lun_ranges) const;

  std::uint32_t block_bytes_;
  std::size_t lun_count_ = 0;
  std::vector<PoolGeometry> pools_;
};

}  // namespace reel
