#include "proto/token_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reel {
namespace {

using GrantedRanges = std::vector<TokenRanges::GrantedRange>;

TokenSpan Span(std::uint64_t first, std::uint64_t end) {
  return {.first = FileBlock(first), .end = FileBlock(end)};
}
TokenSpan From(std::uint64_t first) {
  return {.first = FileBlock(first), .end = kEndOfFileBlocks};
}
GrantedRanges All(const TokenRanges& ranges) {
  return {ranges.granted().begin(), ranges.granted().end()};
}

TEST(TokenRangesTest, NothingIsHeldAtFirst) {
  const TokenRanges ranges;
  EXPECT_TRUE(ranges.empty());
  EXPECT_EQ(ranges.Least(), v1::TOKEN_NONE);
  EXPECT_EQ(ranges.Most(), v1::TOKEN_NONE);
}

TEST(TokenRangesTest, RaisingAndLoweringSplitAndMerge) {
  TokenRanges ranges;
  ranges.Raise(kWholeFile, v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(All(ranges), (GrantedRanges{{kWholeFile, v1::TOKEN_EXCLUSIVE}}));
  ranges.Lower(Span(10, 20), v1::TOKEN_SHARED);
  ranges.Lower(Span(30, 40), v1::TOKEN_NONE);
  EXPECT_EQ(All(ranges), (GrantedRanges{{Span(0, 10), v1::TOKEN_EXCLUSIVE},
                                        {Span(10, 20), v1::TOKEN_SHARED},
                                        {Span(20, 30), v1::TOKEN_EXCLUSIVE},
                                        {From(40), v1::TOKEN_EXCLUSIVE}}));
  EXPECT_EQ(ranges.Least(Span(5, 30)), v1::TOKEN_SHARED);
  EXPECT_EQ(ranges.Most(Span(10, 20)), v1::TOKEN_SHARED);
  EXPECT_FALSE(ranges.Has(Span(29, 31), v1::TOKEN_SHARED));
  EXPECT_FALSE(ranges.Has(From(39), v1::TOKEN_SHARED));
  EXPECT_TRUE(ranges.Has(From(40), v1::TOKEN_EXCLUSIVE));
  ranges.Raise(Span(0, 40), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(All(ranges), (GrantedRanges{{kWholeFile, v1::TOKEN_EXCLUSIVE}}));
  ranges.Lower(kWholeFile, v1::TOKEN_NONE);
  EXPECT_TRUE(ranges.empty());
}

TEST(TokenRangesTest, TheWidestSpanEndsWhereOthersHoldMore) {
  TokenRanges others;
  others.Raise(Span(10, 20), v1::TOKEN_EXCLUSIVE);
  others.Raise(Span(30, 40), v1::TOKEN_SHARED);
  EXPECT_EQ(others.WidestAround(Span(25, 26), v1::TOKEN_NONE), Span(20, 30));
  EXPECT_EQ(others.WidestAround(Span(25, 26), v1::TOKEN_SHARED), From(20));
  EXPECT_EQ(others.WidestAround(Span(0, 1), v1::TOKEN_SHARED), Span(0, 10));
}

TEST(TokenRangesTest, AgainstABlockByBlockModel) {
  constexpr std::uint64_t kBlocks = 40;
  std::mt19937_64 random(1);
  TokenRanges ranges;
  std::vector<v1::TokenMode> model(kBlocks, v1::TOKEN_NONE);
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t first = random() % kBlocks;
    const std::uint64_t end = first + 1 + random() % (kBlocks - first);
    const auto mode = static_cast<v1::TokenMode>(random() % 3);
    const bool raise = random() % 2 == 0;
    raise ? ranges.Raise(Span(first, end), mode) : ranges.Lower(Span(first, end), mode);
    v1::TokenMode least = v1::TOKEN_EXCLUSIVE, most = v1::TOKEN_NONE;
    for (std::uint64_t i = first; i < end; ++i) {
      model[i] = raise ? std::max(model[i], mode) : std::min(model[i], mode);
      least = std::min(least, model[i]);
      most = std::max(most, model[i]);
    }
    ASSERT_EQ(ranges.Least(Span(first, end)), least);
    ASSERT_EQ(ranges.Most(Span(first, end)), most);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(ranges.Least(Span(i, i + 1)), model[i]) << "block " << i << ", step " << step;
    }
    for (std::size_t i = 1; i < ranges.granted().size(); ++i) {
      const auto& a = ranges.granted()[i - 1];
      const auto& b = ranges.granted()[i];
      ASSERT_TRUE(a.span.end < b.span.first || (a.span.end == b.span.first && a.mode != b.mode));
    }
  }
}

TEST(TokenRangesTest, SpansOfMessagesAreChecked) {
  EXPECT_EQ(*ParseTokenSpan(0, 0), kWholeFile);
  EXPECT_EQ(*ParseTokenSpan(7, 3), Span(7, 10));
  EXPECT_EQ(*ParseTokenSpan(7, 0), From(7));
  EXPECT_FALSE(ParseTokenSpan(kEndOfFileBlocks.value(), 0).ok());
  EXPECT_FALSE(ParseTokenSpan(1, ~std::uint64_t{0}).ok());
  EXPECT_FALSE(ParseTokenSpan(~std::uint64_t{0}, 1).ok());
  EXPECT_EQ(LengthForMessage(From(7)), 0u);
  EXPECT_EQ(LengthForMessage(Span(7, 10)), 3u);
}

}  // namespace
}  // namespace reel
