#include "client/file/kernel_pages.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

using By = KernelPages::By;
constexpr std::uint64_t kPage = KernelPages::kPageBytes;

ByteRange Pages(std::uint64_t first, std::uint64_t count) {
  return {first * kPage, (first + count) * kPage};
}

TEST(KernelPagesTest, PagesAreHeldUntilTheyAreDropped) {
  KernelPages pages;
  EXPECT_FALSE(pages.MayHold(Pages(0, 100)));
  pages.Fill({kPage + 1, kPage + 2}, By::kRead);
  pages.Fill(Pages(8, 4), By::kRead);
  EXPECT_TRUE(pages.MayHold({2 * kPage - 1, 2 * kPage}));
  EXPECT_FALSE(pages.MayHold({0, kPage}));
  EXPECT_FALSE(pages.MayHold(Pages(2, 6)));
  EXPECT_TRUE(pages.EndDrop(pages.BeginDrop(Pages(9, 1))));
  EXPECT_FALSE(pages.MayHold(Pages(9, 1)));
  EXPECT_TRUE(pages.MayHold(Pages(8, 1)));
  EXPECT_TRUE(pages.MayHold(Pages(10, 2)));
  EXPECT_TRUE(pages.EndDrop(pages.BeginDrop(Pages(0, 1000))));
  EXPECT_TRUE(pages.empty());
}

TEST(KernelPagesTest, APageFilledDuringADropIsHeld) {
  KernelPages pages;
  pages.Fill(Pages(0, 10), By::kRead);
  const std::uint64_t low = pages.BeginDrop(Pages(0, 5));
  const std::uint64_t high = pages.BeginDrop(Pages(5, 5));
  EXPECT_TRUE(pages.IsDropped(Pages(7, 1)));
  pages.Fill(Pages(4, 1), By::kRead);
  EXPECT_FALSE(pages.EndDrop(low));
  EXPECT_TRUE(pages.EndDrop(high));
  EXPECT_TRUE(pages.MayHold(Pages(0, 1)));
  EXPECT_FALSE(pages.MayHold(Pages(5, 5)));
  const std::uint64_t all = pages.BeginDrop(Pages(0, 100));
  EXPECT_TRUE(pages.IsDropped(Pages(5, 5))) << "though it is not held: the page may be locked";
  EXPECT_TRUE(pages.EndDrop(all));
  EXPECT_FALSE(pages.IsDropped(Pages(5, 5)));
}

TEST(KernelPagesTest, GivesRangesInTurn) {
  KernelPages pages;
  pages.Fill(Pages(3, 5), By::kRead);
  pages.Fill(Pages(20, 1), By::kRead);
  const ByteRange first = pages.First(2 * kPage);
  EXPECT_EQ(first.from, 3 * kPage);
  EXPECT_EQ(first.to, 5 * kPage);
  EXPECT_TRUE(pages.EndDrop(pages.BeginDrop(first)));
  EXPECT_EQ(pages.First(100 * kPage).to, 8 * kPage);
}

TEST(KernelPagesTest, ChangesAreKnownWhileTheyLast) {
  KernelPages pages;
  const std::uint64_t one = pages.BeginChange({100, 200});
  const std::uint64_t other = pages.BeginChange({kPage, kPage + 1});
  EXPECT_TRUE(pages.IsChanging({kPage - 1, kPage}));
  pages.EndChange(one);
  EXPECT_FALSE(pages.IsChanging({0, kPage}));
  EXPECT_TRUE(pages.IsChanging({0, kPage + 1}));
  pages.EndChange(other);
  EXPECT_FALSE(pages.IsChanging(Pages(0, 2)));
}

TEST(KernelPagesTest, VeryManyRangesBecomeOne) {
  KernelPages pages;
  for (std::uint64_t i = 0; i <= KernelPages::kMostRanges; ++i)
    pages.Fill(Pages(2 * i, 1), By::kRead);
  EXPECT_TRUE(pages.MayHold(Pages(1, 1)));
  EXPECT_EQ(pages.First(~std::uint64_t{0}).to, Pages(2 * KernelPages::kMostRanges, 1).to);
}

TEST(KernelPagesTest, APageReadAfterADropIsNotStale) {
  KernelPages pages;
  pages.Fill(Pages(0, 10), By::kRead);
  const std::uint64_t drop = pages.BeginDrop(Pages(8, 2));
  pages.BecomeStale();
  pages.Fill(Pages(10, 1), By::kRead);
  pages.Fill(Pages(1, 1), By::kWrite);
  EXPECT_TRUE(pages.IsStale(Pages(1, 1))) << "the rest of the page is as old as it was";
  pages.Fill(Pages(2, 1), By::kRead);
  EXPECT_TRUE(pages.IsStale(Pages(0, 3)));
  EXPECT_FALSE(pages.IsStale(Pages(2, 1)));
  EXPECT_FALSE(pages.IsStale(Pages(10, 1)));
  EXPECT_TRUE(pages.EndDrop(drop));
  EXPECT_FALSE(pages.IsStale(Pages(8, 2)));
}

}  // namespace
}  // namespace reel::client
