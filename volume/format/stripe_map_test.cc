#include "volume/format/stripe_map.h"

#include <gtest/gtest.h>

#include <set>

#include "volume/format/label.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/sizes.h"

namespace reel {
namespace {

std::vector<LunRange> Pieces(const StripeMap& map, PoolId pool, PoolBlock block,
                             std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  std::vector<LunRange> lun_ranges;
  const absl::Status status = map.Map(pool, block, offset_bytes, length_bytes, lun_ranges);
  EXPECT_TRUE(status.ok()) << status;
  return lun_ranges;
}

// Every block of every pool has a place of its own, and together they fill what the LUNs give.
void ExpectBijection(const VolumeDescriptor& volume) {
  ASSERT_TRUE(ValidateDescriptor(volume).ok()) << ValidateDescriptor(volume);
  const StripeMap map(volume);
  std::set<std::pair<std::uint32_t, std::uint64_t>> taken;
  std::uint64_t total_blocks = 0;
  for (std::uint32_t p = 0; p < volume.pools.size(); ++p) {
    EXPECT_EQ(map.pool_blocks(PoolId(p)), volume.pools[p].size_blocks());
    total_blocks += map.pool_blocks(PoolId(p));
    for (std::uint64_t b = 0; b < map.pool_blocks(PoolId(p)); ++b) {
      const auto lun_ranges = Pieces(map, PoolId(p), PoolBlock(b), 0, kBlock);
      ASSERT_EQ(lun_ranges.size(), 1U);
      ASSERT_EQ(lun_ranges[0].length_bytes, kBlock);
      ASSERT_TRUE(taken.emplace(lun_ranges[0].lun, lun_ranges[0].offset_bytes).second)
          << p << " " << b;
    }
  }
  EXPECT_EQ(taken.size(), total_blocks);
  std::uint32_t lun = 0;  // nothing lies outside [data start, data start + rows * breadth)
  for (const Pool& pool : volume.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        const std::uint64_t blocks = set.rows * pool.breadth_blocks;
        for (std::uint64_t i = 0; i < blocks; ++i) {
          EXPECT_EQ(taken.erase({lun, entry.data_start_bytes + i * kBlock}), 1U);
        }
        ++lun;
      }
    }
  }
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(map.lun_count(), lun);
}

TEST(StripeMap, IsABijectionOverSmallGeometries) {
  for (std::uint32_t breadth = 1; breadth <= 4; ++breadth) {
    for (std::size_t luns = 1; luns <= 4; ++luns) {
      for (std::uint64_t rows = 1; rows <= 3; ++rows) {
        ExpectBijection(SampleVolume({{breadth, {{rows, luns}}}}));
        ExpectBijection(SampleVolume(
            {{breadth, {{rows, luns}, {2, 3}, {rows, 1}}}, {5 - breadth, {{4, luns}, {rows, 2}}}}));
      }
    }
  }
}

// Any range is exactly its blocks one after the other, with what joins joined.
TEST(StripeMap, RangesAreTheirBlocksInOrder) {
  const VolumeDescriptor volume = SampleVolume({{2, {{2, 3}, {3, 1}, {2, 2}}}});
  const StripeMap map(volume);
  const std::uint64_t pool_bytes = map.pool_blocks(PoolId(0)) * kBlock;
  constexpr std::uint64_t kStep = 2048;
  for (std::uint64_t start = 0; start < pool_bytes; start += kStep) {
    for (std::uint64_t end = start + kStep; end <= pool_bytes; end += kStep) {
      std::vector<LunRange> expected;
      for (std::uint64_t at = start; at < end; at += kStep) {
        const LunRange step =
            Pieces(map, PoolId(0), PoolBlock(at / kBlock), at % kBlock, kStep).front();
        const bool joins =
            !expected.empty() && expected.back().lun == step.lun &&
            expected.back().offset_bytes + expected.back().length_bytes == step.offset_bytes;
        if (joins) {
          expected.back().length_bytes += kStep;
        } else {
          expected.push_back(step);
        }
      }
      // An offset may reach past its block.
      ASSERT_EQ(Pieces(map, PoolId(0), PoolBlock(0), start, end - start), expected) << start << end;
    }
  }
}

TEST(StripeMap, FollowsTheDocumentedFormula) {
  const StripeMap map(SampleVolume({{1, {{4, 1}}}, {4, {{8, 2}, {8, 3}}}}));
  // Pool 1, second set: blocks from 64 on, LUNs 3 to 5. Block 64 + 29: unit 7, LUN 1, row 2,
  // block 1.
  EXPECT_EQ(Pieces(map, PoolId(1), PoolBlock(64 + 29), 100, 50),
            (std::vector<LunRange>{{4, kReservedBytes + (2 * 4 + 1) * kBlock + 100, 50}}));
  EXPECT_EQ(map.stripe_blocks(PoolId(0), PoolBlock(3)), 1U);
  EXPECT_EQ(map.stripe_blocks(PoolId(1), PoolBlock(63)), 8U);
  EXPECT_EQ(map.stripe_blocks(PoolId(1), PoolBlock(64)), 12U);
}

TEST(StripeMap, OutOfRangeAppendsNothing) {
  const StripeMap map(SampleVolume({{2, {{2, 2}}}}));  // 8 blocks
  std::vector<LunRange> lun_ranges = {{9, 9, 9}};
  const std::vector<LunRange> before = lun_ranges;
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(1), PoolBlock(0), 0, 1, lun_ranges)));
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(0), PoolBlock(8), 0, 1, lun_ranges)));
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(0), PoolBlock(7), 0, kBlock + 1, lun_ranges)));
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(0), PoolBlock(0), 8 * kBlock, 1, lun_ranges)));
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(0), PoolBlock(kHuge), 0, 1, lun_ranges)));
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(0), PoolBlock(1), kHuge, 1, lun_ranges)));
  EXPECT_TRUE(absl::IsOutOfRange(map.Map(PoolId(0), PoolBlock(1), 1, kHuge, lun_ranges)));
  EXPECT_TRUE(map.Map(PoolId(0), PoolBlock(8), 0, 0, lun_ranges).ok()) << "nothing, at the end";
  EXPECT_EQ(lun_ranges, before);
}

}  // namespace
}  // namespace reel
