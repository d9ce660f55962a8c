#include "mdc/tables/token_table.h"

#include "gtest/gtest.h"
#include "mdc/testing/cast.h"

namespace reel::mdc {
namespace {

TEST(TokenTable, SharedTokensCoexistAndExclusiveOnesDoNot) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_SHARED);
  table.Grant(kB, kFile, v1::TOKEN_SHARED);
  EXPECT_TRUE(table.OthersAtMost(kC, kFile, v1::TOKEN_SHARED));
  EXPECT_FALSE(table.OthersAtMost(kC, kFile, v1::TOKEN_NONE));
  EXPECT_FALSE(table.OthersAtMost(kA, kFile, v1::TOKEN_NONE));
  EXPECT_TRUE(table.Return(kB, kFile, v1::TOKEN_NONE));
  EXPECT_TRUE(table.OthersAtMost(kA, kFile, v1::TOKEN_NONE));
}

TEST(TokenTable, ARecallIsSentOnceAndAStrongerOneAgain) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(table.RecallOthers(kB, kFile, v1::TOKEN_SHARED).size(), 1u);
  EXPECT_TRUE(table.RecallOthers(kC, kFile, v1::TOKEN_SHARED).empty());
  const auto stronger = table.RecallOthers(kC, kFile, v1::TOKEN_NONE);
  ASSERT_EQ(stronger.size(), 1u);
  EXPECT_EQ(stronger[0].session, kA);
  EXPECT_EQ(stronger[0].mode, v1::TOKEN_NONE);

  EXPECT_TRUE(table.Return(kA, kFile, v1::TOKEN_SHARED));
  EXPECT_TRUE(table.RecallPending(kA, kFile));  // not low enough yet
  EXPECT_TRUE(table.Return(kA, kFile, v1::TOKEN_NONE));
  EXPECT_FALSE(table.RecallPending(kA, kFile));
  EXPECT_EQ(table.Held(kA, kFile), v1::TOKEN_NONE);
}

TEST(TokenTable, PendingRecallsAreThoseNotAnswered) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_SHARED);
  table.Grant(kA, InodeNumber(8), v1::TOKEN_SHARED);
  table.RecallOthers(kB, kFile, v1::TOKEN_NONE);
  EXPECT_TRUE(table.AnyRecallPending(kFile));
  const auto pending = table.PendingRecalls(kA);
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].inode, kFile);
  table.Return(kA, kFile, v1::TOKEN_NONE);
  EXPECT_TRUE(table.PendingRecalls(kA).empty());
}

TEST(TokenTable, DropGivesUpEverything) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE);
  table.Grant(kA, InodeNumber(3), v1::TOKEN_SHARED);
  table.Grant(kB, InodeNumber(3), v1::TOKEN_SHARED);
  EXPECT_EQ(table.CountOf(kA), 2u);
  EXPECT_EQ(table.Drop(kA), (std::vector<InodeNumber>{InodeNumber(3), kFile}));
  EXPECT_EQ(table.CountOf(kA), 0u);
  EXPECT_EQ(table.Held(kB, InodeNumber(3)), v1::TOKEN_SHARED);
}

TEST(TokenTable, AReturnWithoutATokenIsIgnored) {
  TokenTable table;
  EXPECT_FALSE(table.Return(kA, kFile, v1::TOKEN_NONE));
  table.Grant(kB, kFile, v1::TOKEN_SHARED);
  EXPECT_FALSE(table.Return(kA, kFile, v1::TOKEN_NONE));
}

TokenSpan Span(std::uint64_t first, std::uint64_t end) {
  return {.first = FileBlock(first), .end = FileBlock(end)};
}

TEST(TokenTable, RangesOfOneFileBelongToMany) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE, Span(0, 10));
  table.Grant(kB, kFile, v1::TOKEN_EXCLUSIVE, Span(20, 30));
  EXPECT_TRUE(table.OthersAtMost(kC, kFile, v1::TOKEN_NONE, Span(10, 20)));
  EXPECT_FALSE(table.OthersAtMost(kC, kFile, v1::TOKEN_SHARED, Span(10, 21)));
  EXPECT_EQ(table.WidestAround(kC, kFile, v1::TOKEN_NONE, Span(12, 13)), Span(10, 20));
  EXPECT_EQ(table.WidestAround(kA, kFile, v1::TOKEN_NONE, Span(12, 13)), Span(0, 20));
  EXPECT_EQ(table.Held(kA, kFile, Span(0, 10)), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(table.Held(kA, kFile), v1::TOKEN_NONE);
  EXPECT_EQ(table.Most(kA, kFile), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(table.CountOf(kA), 1u);
}

TEST(TokenTable, RangesCount) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE, Span(0, 10));
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE, Span(20, 30));
  table.Grant(kA, InodeNumber(3), v1::TOKEN_SHARED);
  EXPECT_EQ(table.CountOf(kA), 3u);
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE, Span(10, 20));
  EXPECT_EQ(table.CountOf(kA), 2u);
  table.Return(kA, kFile, v1::TOKEN_SHARED, Span(10, 20));
  EXPECT_EQ(table.CountOf(kA), 4u);
  table.Forget(kFile);
  EXPECT_EQ(table.CountOf(kA), 1u);
  table.Return(kA, InodeNumber(3), v1::TOKEN_NONE);
  EXPECT_EQ(table.CountOf(kA), 0u);
}

TEST(TokenTable, ARecallIsOfARangeAndAnsweredByAWiderOne) {
  TokenTable table;
  table.Grant(kA, kFile, v1::TOKEN_EXCLUSIVE);
  const auto recalls = table.RecallOthers(kB, kFile, v1::TOKEN_NONE, Span(10, 20));
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].span, Span(10, 20));
  EXPECT_TRUE(table.RecallOthers(kC, kFile, v1::TOKEN_SHARED, Span(12, 14)).empty());
  EXPECT_EQ(table.RecallOthers(kC, kFile, v1::TOKEN_NONE, Span(15, 25)).size(), 1u);
  EXPECT_TRUE(table.RecallPending(kA, kFile, Span(19, 40)));
  EXPECT_FALSE(table.RecallPending(kA, kFile, Span(30, 40)));

  EXPECT_TRUE(table.Return(kA, kFile, v1::TOKEN_NONE, Span(10, 20)));
  EXPECT_EQ(table.PendingRecalls(kA).size(), 1u);
  EXPECT_TRUE(table.Return(kA, kFile, v1::TOKEN_NONE, Span(20, 100)));
  EXPECT_FALSE(table.AnyRecallPending(kFile));
  EXPECT_EQ(table.Held(kA, kFile, Span(0, 10)), v1::TOKEN_EXCLUSIVE);
}

TEST(OpenTable, AnInodeIsOpenWhileASessionHasIt) {
  OpenTable table;
  table.Open(kA, kFile);
  table.Open(kA, kFile);  // again: that changes nothing
  table.Open(kB, kFile);
  EXPECT_TRUE(table.IsOpenBy(kA, kFile));
  EXPECT_FALSE(table.Close(kA, kFile));
  EXPECT_FALSE(table.IsOpenBy(kA, kFile));
  EXPECT_FALSE(table.Close(kA, kFile));  // not its own any more
  EXPECT_TRUE(table.IsOpen(kFile));
  EXPECT_TRUE(table.Close(kB, kFile));
  EXPECT_FALSE(table.IsOpen(kFile));
}

TEST(OpenTable, DropReturnsInodesWithoutOpens) {
  OpenTable table;
  table.Open(kA, kFile);
  table.Open(kA, InodeNumber(8));
  table.Open(kB, InodeNumber(8));
  EXPECT_EQ(table.Drop(kA, 1), std::vector<InodeNumber>{kFile});
  EXPECT_EQ(table.CountOf(kA), 1u);
  EXPECT_TRUE(table.Drop(kA).empty());
  EXPECT_EQ(table.CountOf(kA), 0u);
  EXPECT_TRUE(table.IsOpen(InodeNumber(8)));
}

// What a session holds is found without looking at what others hold.
TEST(TokenTable, ASessionsTokensAreSeparate) {
  constexpr std::uint64_t kMany = 1'000'000;
  TokenTable table;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    table.Grant(kA, InodeNumber(i), v1::TOKEN_SHARED);
  }
  for (std::uint64_t i = 1; i <= 5; ++i) table.Grant(kB, InodeNumber(i), v1::TOKEN_SHARED);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(table.RecallOthers(kC, InodeNumber(i), v1::TOKEN_NONE).size(), 2u);
  }
  EXPECT_EQ(table.PendingRecalls(kA).size(), 3u);
  EXPECT_EQ(table.PendingRecalls(kB).size(), 3u);
  table.Return(kB, InodeNumber(2), v1::TOKEN_NONE);
  EXPECT_EQ(table.PendingRecalls(kB).size(), 2u);
  table.Forget(InodeNumber(1));
  EXPECT_EQ(table.PendingRecalls(kB).size(), 1u);
  EXPECT_EQ(table.Drop(kB),
            (std::vector<InodeNumber>{InodeNumber(3), InodeNumber(4), InodeNumber(5)}));
  EXPECT_TRUE(table.PendingRecalls(kB).empty());
  EXPECT_LE(table.looked_at(), 20u);
  // … and is given up in parts.
  const std::vector<Recall> first = table.PendingRecalls(kA, InodeNumber(0), 1);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].inode, InodeNumber(2));
  EXPECT_EQ(table.PendingRecalls(kA, InodeNumber(3), 10).size(), 1u);
  EXPECT_EQ(table.Drop(kA, 2), (std::vector<InodeNumber>{InodeNumber(2), InodeNumber(3)}));
  EXPECT_TRUE(table.Drop(kA, 0).empty());
  EXPECT_EQ(table.CountOf(kA), kMany - 3);
  EXPECT_TRUE(table.PendingRecalls(kA).empty());
  EXPECT_LE(table.looked_at(), 24u);
}

}  // namespace
}  // namespace reel::mdc
