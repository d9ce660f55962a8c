#include "mdc/space/areas.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

Run At(std::uint64_t start, std::uint64_t length, std::uint32_t pool = 0) {
  return {PoolId(pool), PoolBlock(start), length};
}

TEST(AreasTest, NeighboursAreJoined) {
  Areas areas;
  AddTo(areas, At(20, 10));
  AddTo(areas, At(0, 10));
  EXPECT_EQ(areas.size(), 2);
  AddTo(areas, At(5, 20));
  ASSERT_EQ(areas.size(), 1);
  EXPECT_EQ(ToRun(areas[0]), At(0, 30));
}

TEST(AreasTest, PoolsAreApart) {
  Areas areas;
  AddTo(areas, At(0, 10, 1));
  AddTo(areas, At(10, 10, 0));
  EXPECT_EQ(areas.size(), 2);
  EXPECT_FALSE(Covers(areas, At(0, 10, 0)));
  EXPECT_TRUE(Covers(areas, At(0, 10, 1)));
}

TEST(AreasTest, WhatIsTakenOutOfTheMiddleLeavesBothEnds) {
  Areas areas;
  AddTo(areas, At(0, 30));
  RemoveFrom(areas, At(10, 10));
  ASSERT_EQ(areas.size(), 2);
  EXPECT_EQ(ToRun(areas[0]), At(0, 10));
  EXPECT_EQ(ToRun(areas[1]), At(20, 10));
  EXPECT_FALSE(Covers(areas, At(5, 10)));
  EXPECT_TRUE(Covers(areas, At(22, 8)));
  RemoveFrom(areas, At(0, 100));
  EXPECT_TRUE(areas.empty());
}

}  // namespace
}  // namespace reel::mdc
