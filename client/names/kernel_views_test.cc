#include "client/names/kernel_views.h"

#include "gtest/gtest.h"

namespace reel::client {
namespace {

using Shown = KernelViews::Shown;

constexpr std::uint64_t kUntil = 1'000;
constexpr bool kOfDirectory = true;

TEST(KernelViewsTest, NothingOfBeforeIsKeptAfterItWasForgotten) {
  KernelViews views;
  KernelViews::View directory, child;
  views.ShowName(directory, &child);
  EXPECT_TRUE(views.Keeps(directory));
  EXPECT_TRUE(views.KeepsNames(directory));
  EXPECT_TRUE(views.Keeps(child));
  EXPECT_FALSE(views.KeepsNames(child));
  EXPECT_TRUE(views.BeginForget());
  views.EndForget();
  EXPECT_FALSE(views.Keeps(directory));
  EXPECT_FALSE(views.KeepsNames(directory));
  EXPECT_FALSE(views.Keeps(child));
}

TEST(KernelViewsTest, NothingMoreIsKeptWhileTheKernelForgets) {
  KernelViews views;
  KernelViews::View view;
  EXPECT_FALSE(views.BeginForget()) << "there is nothing";
  EXPECT_FALSE(views.may_keep());
  EXPECT_EQ(views.ShowAttributes(view, kUntil, /*keep=*/true, kOfDirectory), Shown::kMoment);
  EXPECT_FALSE(views.Keeps(view));
  views.EndForget();
  EXPECT_TRUE(views.may_keep());
  EXPECT_EQ(views.ShowAttributes(view, kUntil, /*keep=*/true, kOfDirectory), Shown::kKept);
}

// The kernel is told of each file whose attributes it keeps.
TEST(KernelViewsTest, AttributesOfFilesAreKeptInNoEpoch) {
  KernelViews views;
  KernelViews::View view;
  views.BeginForget();
  EXPECT_EQ(views.ShowAttributes(view, kUntil, /*keep=*/true, /*directory=*/false), Shown::kKept);
  EXPECT_FALSE(views.Keeps(view));
  EXPECT_FALSE(views.keeps());
  views.EndForget();
  EXPECT_TRUE(view.KeepsAttributesAt(kUntil - 1));
}

TEST(KernelViewsTest, KernelViewsKnowWhetherAnythingIsKept) {
  KernelViews views;
  KernelViews::View view;
  EXPECT_EQ(views.ShowAttributes(view, kUntil, /*keep=*/false, kOfDirectory), Shown::kMoment);
  EXPECT_FALSE(views.keeps()) << "a moment needs no forgetting";
  views.ShowName(view, nullptr);
  EXPECT_TRUE(views.keeps());
  views.BeginForget();
  views.EndForget();
  EXPECT_FALSE(views.keeps());
}

TEST(KernelViewsTest, ShownAttributesAreInvalidatedOnce) {
  KernelViews views;
  KernelViews::View view;
  EXPECT_FALSE(view.TakeAttributes());
  EXPECT_EQ(views.ShowAttributes(view, kUntil, /*keep=*/true, kOfDirectory), Shown::kKept);
  EXPECT_EQ(views.ShowAttributes(view, kUntil, /*keep=*/false, kOfDirectory), Shown::kMoment);
  EXPECT_EQ(view.attributes(), Shown::kKept) << "the longer one counts";
  EXPECT_TRUE(view.KeepsAttributesAt(kUntil - 1));
  EXPECT_FALSE(view.KeepsAttributesAt(kUntil));
  EXPECT_TRUE(view.TakeAttributes());
  EXPECT_FALSE(view.TakeAttributes());
}

TEST(KernelViewsTest, AListingIsKeptInOneStateOfOneDirectory) {
  KernelViews views;
  KernelViews::View one, other;
  const std::uint64_t number = views.ShowListing(one).number;
  EXPECT_EQ(views.ShowListing(one).number, number);
  EXPECT_NE(views.ShowListing(other).number, number);
  one.NoteListing(number);
  EXPECT_TRUE(views.ShowListing(one).kept);
  one.DropListing();
  one.NoteListing(number);
  EXPECT_NE(views.ShowListing(one).number, number);
  EXPECT_FALSE(views.ShowListing(one).kept) << "it was of the state before";
}

}  // namespace
}  // namespace reel::client
