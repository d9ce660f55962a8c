#include "client/inode/recall_progress.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

using Stage = RecallProgress::Stage;

TokenSpan Span(std::uint64_t first, std::uint64_t end) {
  return {.first = FileBlock(first), .end = FileBlock(end)};
}
RecallProgress::Recalled Down(const TokenSpan& span, v1::TokenMode mode = v1::TOKEN_NONE) {
  return {.span = span, .mode = mode};
}
constexpr TokenSpan kEverywhere{.first = FileBlock(0), .end = kEndOfFileBlocks};

TEST(RecallProgress, ARecallGoesByStages) {
  RecallProgress recall;
  EXPECT_FALSE(recall.under_way());
  ASSERT_TRUE(recall.Begin(Down(kWholeFile), kEverywhere));
  EXPECT_EQ(recall.stage(), Stage::kDraining);
  EXPECT_TRUE(recall.Close());
  EXPECT_FALSE(recall.Close()) << "it is closed";
  recall.Reopen();
  EXPECT_TRUE(recall.Close());
  recall.BeginReturn(kEverywhere);
  EXPECT_EQ(recall.stage(), Stage::kReturning);
  EXPECT_FALSE(recall.Close());
  EXPECT_FALSE(recall.End());
  EXPECT_FALSE(recall.under_way());
}

TEST(RecallProgress, ALaterOneMakesItLarger) {
  RecallProgress recall;
  ASSERT_TRUE(recall.Begin(Down(Span(0, 4), v1::TOKEN_SHARED), kEverywhere));
  const std::uint64_t cycle = recall.cycle();
  EXPECT_FALSE(recall.Begin(Down(Span(2, 8)), kEverywhere));
  EXPECT_FALSE(recall.IsOver(cycle));
  EXPECT_EQ(recall.recalled(), Down(Span(0, 8)));
}

TEST(RecallProgress, ARecallDuringTheReturnFollowsIfItAsksForMore) {
  RecallProgress recall;
  ASSERT_TRUE(recall.Begin(Down(Span(0, 4), v1::TOKEN_SHARED), kEverywhere));
  recall.BeginReturn(kEverywhere);
  EXPECT_FALSE(recall.Begin(Down(Span(1, 2), v1::TOKEN_SHARED), kEverywhere));
  EXPECT_FALSE(recall.End()) << "that was in it";

  ASSERT_TRUE(recall.Begin(Down(Span(0, 4), v1::TOKEN_SHARED), kEverywhere));
  recall.BeginReturn(kEverywhere);
  EXPECT_FALSE(recall.Begin(Down(Span(1, 2)), kEverywhere));
  EXPECT_FALSE(recall.Begin(Down(Span(3, 4), v1::TOKEN_SHARED), kEverywhere));
  EXPECT_EQ(recall.End(), Down(Span(1, 4)));
  EXPECT_FALSE(recall.under_way());
}

TEST(RecallProgress, ARangeAwayFromTheLastUseGoesAsAWhole) {
  RecallProgress recall;
  ASSERT_TRUE(recall.Begin(Down(Span(10, 20)), Span(30, 32)));
  EXPECT_TRUE(recall.Passes(Span(30, 40)));
  EXPECT_FALSE(recall.Passes(Span(5, 6)));
  recall.BeginReturn(Span(34, 36));
  EXPECT_EQ(recall.recalled().span, Span(0, 34)) << "its place by now counts";
  recall.End();

  ASSERT_TRUE(recall.Begin(Down(Span(10, 20)), Span(5, 6)));
  recall.BeginReturn(Span(5, 6));
  EXPECT_EQ(recall.recalled().span, (TokenSpan{.first = FileBlock(10)}));
}

TEST(RecallProgress, ARangeInUseIsNotYielded) {
  RecallProgress recall;
  ASSERT_TRUE(recall.Begin(Down(Span(10, 20)), Span(30, 32)));
  const std::uint64_t round = recall.EnterPassing();
  EXPECT_EQ(recall.passing(), 1u);
  recall.BeginReturn(Span(34, 36));
  EXPECT_EQ(recall.recalled().span, Span(0, 30));
  recall.LeavePassing(round);
  EXPECT_EQ(recall.passing(), 0u);
}

TEST(RecallProgress, ALargerRecallWaitsForPassingRequests) {
  RecallProgress recall;
  ASSERT_TRUE(recall.Begin(Down(Span(10, 20)), Span(30, 32)));
  const std::uint64_t round = recall.EnterPassing();
  recall.Begin(Down(Span(10, 20)), Span(30, 32));
  EXPECT_EQ(recall.passing(), 1u) << "it is no larger";
  recall.Begin(Down(Span(10, 40)), Span(30, 32));
  EXPECT_EQ(recall.passing(), 0u);
  recall.EnterPassing();
  recall.LeavePassing(round);
  EXPECT_EQ(recall.passing(), 1u) << "the other one is there still";
}

TEST(RecallProgress, AVoidRecallIsOverForItsWorker) {
  RecallProgress recall;
  ASSERT_TRUE(recall.Begin(Down(kWholeFile), kEverywhere));
  const std::uint64_t cycle = recall.cycle();
  recall.BeginReturn(kEverywhere);
  recall.Begin(Down(kWholeFile), kEverywhere);
  recall.Void();
  EXPECT_TRUE(recall.IsOver(cycle));
  EXPECT_FALSE(recall.under_way());
  ASSERT_TRUE(recall.Begin(Down(Span(0, 4)), kEverywhere));
  recall.BeginReturn(kEverywhere);
  EXPECT_FALSE(recall.End()) << "what followed the void one went with it";
}

// Whoever has no path, and has held others up until the session was over, asks for no token again.
TEST(RecallProgress, ALostSessionInARecallCountsAsHavingGivenWay) {
  RecallProgress recall;
  recall.Void();
  EXPECT_FALSE(recall.gave_way());
  ASSERT_TRUE(recall.Begin(Down(kWholeFile), kEverywhere));
  recall.Void();
  EXPECT_TRUE(recall.gave_way());
}

}  // namespace
}  // namespace reel::client
