#include "mdc/moves/fullness.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using SetSpace = Allocator::SetSpace;

SetSpace Set(std::uint32_t pool, std::uint64_t start, std::uint64_t free, bool closed = false) {
  return {.area = {PoolId(pool), PoolBlock(start), 1'000},
          .stored_free_blocks = free,
          .closed = closed};
}

TEST(FullnessTest, OfAFullSetAShareGoesToAnEmptyOne) {
  v1::JobRecord job;
  const std::vector<SetSpace> sets = {Set(0, 0, 200), Set(0, 1'000, 1'000)};
  ASSERT_TRUE(FindUneven(sets, std::nullopt, job));
  ASSERT_EQ(job.areas_size(), 1);
  EXPECT_EQ(ToRun(job.areas(0)), sets[0].area);
  EXPECT_NEAR(job.shares(0), 500'000, 1) << "400 of its 800 blocks";
  const Fullness fullness(sets, job.areas());
  EXPECT_TRUE(fullness.IsAbove(0));
  EXPECT_EQ(fullness.Emptiest(PoolId(0), {}), sets[1].area);
}

TEST(FullnessTest, NothingIsDoneWhereSetsAreAsFullAsEachOther) {
  v1::JobRecord job;
  EXPECT_FALSE(FindUneven({Set(0, 0, 200), Set(0, 1'000, 210)}, std::nullopt, job));
  EXPECT_FALSE(FindUneven({Set(0, 0, 200), Set(1, 0, 1'000)}, std::nullopt, job)) << "other pools";
}

TEST(FullnessTest, AClosedSetTakesNoPart) {
  v1::JobRecord job;
  const std::vector<SetSpace> sets = {Set(0, 0, 200), Set(0, 1'000, 1'000, /*closed=*/true)};
  EXPECT_FALSE(FindUneven(sets, std::nullopt, job));
  v1::JobRecord begun;
  ASSERT_TRUE(FindUneven({Set(0, 0, 200), Set(0, 1'000, 1'000)}, std::nullopt, begun));
  const Fullness fullness(sets, begun.areas());
  EXPECT_FALSE(fullness.IsAbove(0));
  EXPECT_FALSE(fullness.Emptiest(PoolId(0), {}).has_value());
}

TEST(FullnessTest, OnlyThePoolThatWasNamed) {
  const std::vector<SetSpace> sets = {Set(0, 0, 200), Set(0, 1'000, 1'000), Set(1, 0, 0),
                                      Set(1, 1'000, 1'000)};
  v1::JobRecord job;
  ASSERT_TRUE(FindUneven(sets, PoolId(1), job));
  ASSERT_EQ(job.areas_size(), 1);
  EXPECT_EQ(job.areas(0).pool(), 1u);
  ASSERT_TRUE(FindUneven(sets, std::nullopt, job));
  EXPECT_EQ(job.areas_size(), 2);
}

TEST(FullnessTest, AFileGoesOnInTheSetThatItIsIn) {
  const std::vector<SetSpace> sets = {Set(0, 0, 0), Set(0, 1'000, 700), Set(0, 2'000, 1'000)};
  v1::JobRecord job;
  ASSERT_TRUE(FindUneven(sets, std::nullopt, job));
  const Fullness fullness(sets, job.areas());
  EXPECT_EQ(fullness.Emptiest(PoolId(0), {}), sets[2].area);
  AllocationRequest request;
  request.has_goal = true;
  request.goal_block = PoolBlock(1'300);
  EXPECT_EQ(fullness.Emptiest(PoolId(0), request), sets[1].area);
}

TEST(FullnessTest, LotsAreSpreadEvenly) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) sum += ChanceOf(InodeNumber(7), i, 1);
  EXPECT_NEAR(static_cast<double>(sum) / 10'000, 500'000, 10'000);
  EXPECT_EQ(ChanceOf(InodeNumber(7), 3, 0), ChanceOf(InodeNumber(7), 3, 0));
  EXPECT_NE(ChanceOf(InodeNumber(7), 3, 0), ChanceOf(InodeNumber(7), 3, 1));
}

}  // namespace
}  // namespace reel::mdc
