#include "mdc/moves/align.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "mdc/moves/pieces.h"
#include "mdc/space/units.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kUnit = 4;

Extent At(std::uint64_t file_block, std::uint64_t pool_block, std::uint64_t blocks,
          std::uint32_t pool = 0) {
  Extent extent;
  extent.file_block = FileBlock(file_block);
  extent.length_blocks = blocks;
  extent.pool = PoolId(pool);
  extent.pool_block = PoolBlock(pool_block);
  return extent;
}

std::string Misplaced(const std::vector<Extent>& extents) {
  const auto found = FirstMisplaced(extents, PoolId(0), kUnit);
  return found ? absl::StrCat(found->first.value(), "..", found->end.value()) : "none";
}

TEST(Align, UnitsLieWellWhereTheirBlocksFollowAMultiple) {
  EXPECT_EQ(Misplaced({}), "none");
  EXPECT_EQ(Misplaced({At(0, 8, 12)}), "none");
  EXPECT_EQ(Misplaced({At(0, 8, 4), At(4, 40, 2)}), "none");
  EXPECT_EQ(Misplaced({At(0, 9, 3)}), "0..4");
  EXPECT_EQ(Misplaced({At(5, 9, 1)}), "none");
  EXPECT_EQ(Misplaced({At(5, 8, 6)}), "4..12");
}

TEST(Align, AUnitInTwoPlacesDoesNotLieWell) {
  EXPECT_EQ(Misplaced({At(0, 8, 6), At(6, 42, 2)}), "4..8");
  // Written and unwritten blocks that follow each other.
  EXPECT_EQ(Misplaced({At(0, 8, 6), At(6, 14, 2)}), "none");
  // With a hole between them, at their places.
  EXPECT_EQ(Misplaced({At(0, 8, 1), At(3, 11, 1)}), "none");
}

TEST(Align, UnitsThatFollowEachOtherAreFoundTogether) {
  EXPECT_EQ(Misplaced({At(0, 8, 4), At(4, 21, 4), At(8, 31, 3), At(16, 61, 4)}), "4..12");
}

TEST(Align, OtherPoolsHaveUnitsOfTheirOwn) {
  EXPECT_EQ(Misplaced({At(0, 9, 3, 1)}), "none");
  EXPECT_EQ(Misplaced({At(0, 8, 2), At(2, 9, 1, 1), At(3, 41, 1)}), "0..4");
}

TEST(Align, ABlockSizeIsAPowerOfTwoFromTheVolumesOn) {
  VolumeDescriptor volume;
  volume.block_bytes = 16 * kKiB;
  volume.pools.resize(1);
  volume.pools[0].flags = Pool::kData;
  EXPECT_TRUE(CheckUnit(volume, PoolId(0), 64 * kKiB).ok());
  EXPECT_TRUE(CheckUnit(volume, PoolId(0), 16 * kKiB).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckUnit(volume, PoolId(0), 4 * kKiB)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckUnit(volume, PoolId(0), 48 * kKiB)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckUnit(volume, PoolId(0), 2 * kMiB)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckUnit(volume, PoolId(0), 0)));
  volume.pools[0].flags = Pool::kMetadata;
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckUnit(volume, PoolId(0), 64 * kKiB)));
}

TEST(Align, WhatTheRecordSaysOfUnitsIsNotTrusted) {
  v1::VolumeRecord volume;
  SetUnit(PoolId(2), 16, volume);
  volume.set_unit_blocks(1, 3);
  EXPECT_THAT(UnitsOf(volume), testing::ElementsAre(1, 1, 16));
}

TEST(Pieces, HolesOfWholeUnitsKeepThePlaceInAUnit) {
  const std::vector<Extent> extents = {At(0, 8, 2), At(10, 40, 2), At(13, 60, 1)};
  EXPECT_EQ(UntilOddHole(extents, kUnit).size(), 2u);
  EXPECT_EQ(UntilOddHole(extents, 1).size(), 3u);
}

TEST(Pieces, ARangeOfAFileIsCutOut) {
  const auto part = PartOf({At(0, 8, 4), At(6, 40, 4)}, {FileBlock(2), FileBlock(8)});
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[0].pool_block, PoolBlock(10));
  EXPECT_EQ(part[0].length_blocks, 2u);
  EXPECT_EQ(part[1].pool_block, PoolBlock(40));
  EXPECT_EQ(part[1].length_blocks, 2u);
}

}  // namespace
}  // namespace reel::mdc
