#include "mdc/ops/quota_limits.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kNow = 1'000'000;

TEST(QuotaLimits, RoomIsWhatIsLeftOfTheHardLimit) {
  EXPECT_EQ(RoomIn({.used = 7}, kNow), kNoQuotaLimit);
  EXPECT_EQ(RoomIn({.used = 7, .hard = 10}, kNow), 3u);
  EXPECT_EQ(RoomIn({.used = 10, .hard = 10}, kNow), 0u);
  EXPECT_EQ(RoomIn({.used = 11, .hard = 10}, kNow), 0u);  // it was lowered
}

TEST(QuotaLimits, AboveTheSoftLimitTimeRunsOut) {
  QuotaUsage usage{.used = 7, .soft = 5, .hard = 10, .grace_seconds = 60};
  EXPECT_EQ(StandingOf(usage, kNow), QuotaStanding::kBelow);  // nobody has noted it yet
  usage.over_since = OverSince(usage, kNow);
  EXPECT_EQ(StandingOf(usage, kNow + 59), QuotaStanding::kInGrace);
  EXPECT_EQ(GraceLeft(usage, kNow + 59), 1u);
  EXPECT_EQ(RoomIn(usage, kNow + 59), 3u);
  EXPECT_EQ(StandingOf(usage, kNow + 60), QuotaStanding::kGraceOver);
  EXPECT_EQ(RoomIn(usage, kNow + 60), 0u);
  EXPECT_EQ(OverSince(usage, kNow + 60), kNow);  // as long as it stays above
  usage.used = 5;
  EXPECT_EQ(OverSince(usage, kNow + 60), 0u);
}

TEST(QuotaLimits, WhatNobodyAskedForPassesNoSoftLimit) {
  EXPECT_EQ(RoomAheadIn({.used = 3, .soft = 5, .hard = 10}), 2u);
  EXPECT_EQ(RoomAheadIn({.used = 7, .soft = 5, .hard = 10}), 0u);
  EXPECT_EQ(RoomAheadIn({.used = 7, .hard = 10}), 3u);
  EXPECT_EQ(RoomAheadIn({.used = 7}), kNoQuotaLimit);
}

TEST(QuotaLimits, AnotherRoundHasCountedNothing) {
  v1::QuotaStateRecord state;
  state.set_round(2);
  v1::QuotaRecord record;
  record.set_round(1);
  record.set_blocks(50);
  record.set_soft_blocks(10);
  record.set_blocks_over_since(3);
  EXPECT_EQ(SpaceOf(record, state, QuotaKind::kUser).used, 0u);
  EXPECT_EQ(StandingOf(SpaceOf(record, state, QuotaKind::kUser), kNow), QuotaStanding::kBelow);
  AddUsage({.blocks = 4, .files = 1}, state, kNow, record);
  EXPECT_EQ(record.blocks(), 4u);
  EXPECT_EQ(record.blocks_over_since(), 0u);
  AddUsage({.blocks = -5, .files = -5}, state, kNow, record);  // damage
  EXPECT_EQ(record.blocks(), 0u);
  EXPECT_EQ(record.files(), 0u);
}

TEST(QuotaLimits, GraceTimesHaveADefault) {
  v1::QuotaStateRecord state;
  EXPECT_EQ(FilesOf({}, state, QuotaKind::kTree).grace_seconds, kDefaultGraceSeconds);
  state.mutable_tree()->set_files_seconds(5);
  EXPECT_EQ(FilesOf({}, state, QuotaKind::kTree).grace_seconds, 5u);
  EXPECT_EQ(SpaceOf({}, state, QuotaKind::kTree).grace_seconds, kDefaultGraceSeconds);
}

}  // namespace
}  // namespace reel::mdc
