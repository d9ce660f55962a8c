#include "mdc/moves/restripe.h"

#include <map>
#include <set>

#include "gtest/gtest.h"
#include "volume/format/stripe_map.h"

namespace reel::mdc {
namespace {

constexpr std::uint32_t kOld = 16, kNew = 40;  // blocks
constexpr std::uint64_t kRows = 100;

VolumeDescriptor TwoLuns() {
  VolumeDescriptor volume;
  volume.volume.bytes[0] = 9;
  volume.name = "reel";
  volume.generation = 3;
  volume.block_bytes = 4096;
  Pool pool;
  pool.name = "data";
  pool.flags = Pool::kData | Pool::kMetadata;
  pool.breadth_blocks = kOld;
  pool.sets.emplace_back();
  for (std::uint8_t i = 1; i <= 2; ++i) {
    LunEntry lun;
    lun.lun.bytes[0] = i;
    lun.name = std::string("lun") + static_cast<char>('0' + i);
    lun.data_start_bytes = kMiB;
    pool.sets[0].luns.push_back(lun);
  }
  pool.sets[0].rows = kRows;
  volume.seat_lun = pool.sets[0].luns[0].lun;
  volume.pools = {pool};
  return volume;
}

// Where each block of the pool lies; those in gaps lie nowhere.
using Places = std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>>;
Places PlacesOf(const VolumeDescriptor& volume) {
  // LUNs by their names, as flat indexes change.
  std::vector<std::uint32_t> numbers;
  for (const StripeSet& set : volume.pools[0].sets) {
    for (const LunEntry& lun : set.luns) numbers.push_back(lun.lun.bytes[0]);
  }
  const StripeMap map(volume, numbers);
  Places places;
  for (std::uint64_t block = 0; block < volume.pools[0].size_blocks(); ++block) {
    std::vector<LunRange> ranges;
    if (!map.Map(PoolId(0), PoolBlock(block), 0, 4096, ranges).ok()) continue;
    places[block] = {ranges[0].lun, ranges[0].offset_bytes};
  }
  return places;
}

Run Slice(std::uint64_t start, std::uint64_t rows) {
  return {PoolId(0), PoolBlock(start), rows * kOld * 2};
}

TEST(RestripeTest, NoBlockThatBothMapsHaveLiesElsewhere) {
  VolumeDescriptor volume = TwoLuns();
  // Five rows of 16 are two of 40: nothing is lost between slices.
  std::uint64_t start = 0;
  for (const std::uint64_t rows : {20, 5, 75}) {
    const auto next =
        Restriped(volume, RestripeOrder{JobId(1), Slice(start, rows), {.breadth_blocks = kNew}});
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->generation, volume.generation + 1);
    const Places before = PlacesOf(volume), after = PlacesOf(*next);
    std::set<std::pair<std::uint32_t, std::uint64_t>> used;
    for (const auto& [block, place] : after) {
      EXPECT_TRUE(used.insert(place).second) << "block " << block << " lies where another does";
      const auto known = before.find(block);
      EXPECT_TRUE(known == before.end() || known->second == place) << "block " << block;
    }
    for (const auto& [block, place] : before) {
      const bool in_slice = block >= start && block < start + rows * kOld * 2;
      EXPECT_EQ(after.contains(block), !in_slice);
    }
    volume = *next;
    start += rows * kOld * 2;
  }
  ASSERT_EQ(volume.pools[0].sets.size(), 2u) << "a gap, and one set that the slices have become";
  EXPECT_TRUE(volume.pools[0].sets[0].is_gap());
  EXPECT_EQ(volume.pools[0].sets[1].rows, kRows * kOld / kNew);
  EXPECT_EQ(volume.pools[0].capacity_blocks(), kRows * kOld * 2);
  EXPECT_EQ(volume.pools[0].breadth_blocks, kNew);
  const auto bytes = EncodeDescriptor(volume);
  ASSERT_TRUE(bytes.ok());
  const auto read = DecodeDescriptor(std::as_bytes(std::span(*bytes)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, volume);
}

TEST(RestripeTest, WhatIsLeftOverOfTheLastRowsIsLost) {
  const auto next = Restriped(TwoLuns(), {JobId(1), Slice(0, 99), {.breadth_blocks = kNew}});
  ASSERT_TRUE(next.ok());
  const auto last = Restriped(*next, {JobId(1), Slice(99 * kOld * 2, 1), {.breadth_blocks = kNew}});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->pools[0].sets.back().rows, 99 * kOld / kNew);
}

TEST(RestripeTest, OnlyTheFirstRowsOfASetAreASlice) {
  for (const mdc::Run& slice :
       {Slice(32, 10), Slice(0, 101), mdc::Run{PoolId(0), PoolBlock(0), 33}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(
        Restriped(TwoLuns(), {JobId(1), slice, {.breadth_blocks = kNew}}).status()));
  }
}

TEST(RestripeTest, ABreadthThatCannotBeIsSaid) {
  const VolumeDescriptor volume = TwoLuns();
  EXPECT_TRUE(CheckBreadth(volume, PoolId(0), kNew * 4096).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckBreadth(volume, PoolId(0), 4097)));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckBreadth(volume, PoolId(0), 0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckBreadth(volume, PoolId(0), kOld * 4096)));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckBreadth(volume, PoolId(0), kGiB)));
}

TEST(RestripeTest, ALunThatIsRemovedIsInNoSetAfterTheLastSlice) {
  VolumeDescriptor volume = TwoLuns();
  std::uint64_t start = 0;
  for (const std::uint64_t rows : {30, 70}) {
    const auto next =
        Restriped(volume, RestripeOrder{JobId(1), Slice(start, rows), {.without_lun = "lun2"}});
    ASSERT_TRUE(next.ok()) << next.status();
    const Places before = PlacesOf(volume);
    for (const auto& [block, place] : PlacesOf(*next)) {
      const auto known = before.find(block);
      EXPECT_TRUE(known == before.end() ? place.first == 1 : known->second == place);
    }
    volume = *next;
    start += rows * kOld * 2;
  }
  ASSERT_EQ(volume.pools[0].sets.size(), 2u);
  EXPECT_TRUE(volume.pools[0].sets[0].is_gap());
  EXPECT_EQ(volume.pools[0].sets[1].luns, std::vector{TwoLuns().pools[0].sets[0].luns[0]});
  EXPECT_EQ(volume.pools[0].capacity_blocks(), kRows * kOld);
  EXPECT_EQ(volume.pools[0].breadth_blocks, kOld);
}

TEST(RestripeTest, ALunThatIsReplacedLeavesItsBytesToTheOther) {
  VolumeDescriptor volume = TwoLuns();
  Replacement other{.name = "lun3", .path = "/dev/three"};
  other.lun.bytes[0] = 3;
  std::uint64_t start = 0;
  for (const std::uint64_t rows : {30, 70}) {
    const auto next = Restriped(
        volume, {JobId(1), Slice(start, rows), {.without_lun = "lun2", .instead = other}});
    ASSERT_TRUE(next.ok()) << next.status();
    volume = *next;
    start += rows * kOld * 2;
  }
  ASSERT_EQ(volume.pools[0].sets.size(), 2u);
  const StripeSet& set = volume.pools[0].sets[1];
  EXPECT_EQ(set.rows, kRows);
  ASSERT_EQ(set.luns.size(), 2u);
  EXPECT_EQ(set.luns[0], TwoLuns().pools[0].sets[0].luns[0]);
  EXPECT_EQ(set.luns[1].lun, other.lun);
  EXPECT_EQ(set.luns[1].name, "lun3");
  EXPECT_EQ(set.luns[1].data_start_bytes, kMiB) << "as the other one's";
  EXPECT_EQ(volume.pools[0].capacity_blocks(), kRows * kOld * 2) << "nothing is lost";
}

VolumeDescriptor WithAnotherPool() {
  VolumeDescriptor volume = TwoLuns();
  Pool pool = volume.pools[0];
  pool.name = "old";
  pool.flags = Pool::kData;
  pool.affinities = {"old"};
  for (LunEntry& lun : pool.sets[0].luns) {
    lun.name += "-old";
    lun.lun.bytes[1] = 1;
  }
  pool.sets.push_back(pool.sets[0]);
  for (LunEntry& lun : pool.sets[1].luns) lun.data_start_bytes += kGiB;
  volume.pools.push_back(pool);
  return volume;
}

TEST(RestripeTest, APoolThatIsRemovedKeepsItsPlace) {
  VolumeDescriptor volume = WithAnotherPool();
  const std::uint64_t set = kRows * kOld * 2;
  for (const std::uint64_t start : {std::uint64_t{0}, set}) {
    const auto next =
        Restriped(volume, {JobId(1), {PoolId(1), PoolBlock(start), set}, {.nothing = true}});
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->pools[1].is_removed(), start == set);
    volume = *next;
  }
  EXPECT_EQ(volume.pools[1].size_blocks(), 2 * set) << "no address comes back";
  EXPECT_EQ(volume.pools[1].capacity_blocks(), 0u);
  EXPECT_TRUE(volume.pools[1].affinities.empty());
  const auto bytes = EncodeDescriptor(volume);
  ASSERT_TRUE(bytes.ok());
  const auto read = DecodeDescriptor(std::as_bytes(std::span(*bytes)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, volume);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckRemoval(volume, PoolId(1))));
}

TEST(RestripeTest, APoolThatTheVolumeNeedsIsSaid) {
  VolumeDescriptor volume = WithAnotherPool();
  EXPECT_TRUE(CheckRemoval(volume, PoolId(1)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckRemoval(volume, PoolId(0)))) << "metadata";
  volume.pools[0].flags = Pool::kMetadata;
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckRemoval(volume, PoolId(1)))) << "the only data";
  volume = WithAnotherPool();
  volume.seat_lun = volume.pools[1].sets[0].luns[1].lun;
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckRemoval(volume, PoolId(1)))) << "the seat";
}

TEST(RestripeTest, ALunThatTheVolumeNeedsIsSaid) {
  VolumeDescriptor volume = TwoLuns();
  EXPECT_TRUE(absl::IsNotFound(PoolWithout(volume, "lun3").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(PoolWithout(volume, "lun2").status())) << "metadata";
  volume.pools[0].flags = Pool::kData;
  EXPECT_EQ(PoolWithout(volume, "lun2").value(), PoolId(0));
  EXPECT_TRUE(absl::IsFailedPrecondition(PoolWithout(volume, "lun1").status())) << "the seat";
  volume.pools[0].sets[0].luns.erase(volume.pools[0].sets[0].luns.begin());
  EXPECT_TRUE(absl::IsFailedPrecondition(PoolWithout(volume, "lun2").status())) << "the last";
}

}  // namespace
}  // namespace reel::mdc
