#include "client/session/mdc_search.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(MdcSearch, ARoundBeginsWithTheLastController) {
  MdcSearch search({"a", "b", "c"});
  search.Prefer("b");
  EXPECT_EQ(search.Next(), "b");
  EXPECT_EQ(search.Next(), "c");
  EXPECT_EQ(search.Next(), "a");
  EXPECT_EQ(search.Next(), "");
  EXPECT_EQ(search.Next(), "b") << "the next round";
}

TEST(MdcSearch, AStandbyLeadsToTheActiveController) {
  MdcSearch search({"a", "b", "c"});
  ASSERT_EQ(search.Next(), "a");
  search.Failed("a", 1, "c");
  EXPECT_EQ(search.Next(), "c");
  search.Failed("c", 1, "");
  EXPECT_EQ(search.Next(), "b") << "the round goes on";
}

TEST(MdcSearch, BelievesAStandbyOnceARoundOnly) {
  MdcSearch search({"a", "b"});
  ASSERT_EQ(search.Next(), "a");
  search.Failed("a", 1, "dead");
  ASSERT_EQ(search.Next(), "dead");
  search.Failed("dead", 1, "");
  ASSERT_EQ(search.Next(), "b");
  search.Failed("b", 1, "a");
  ASSERT_EQ(search.Next(), "a");
  search.Failed("a", 1, "a");
  EXPECT_EQ(search.Next(), "") << "it names itself";
}

TEST(MdcSearch, ASilentControllerIsSkippedForAWhile) {
  MdcSearch search({"gone", "b"});
  ASSERT_EQ(search.Next(), "gone");
  search.Failed("gone", SlowTryMs() + 1, "");
  ASSERT_EQ(search.Next(), "b");
  int tries_of_b = 0;
  for (std::string next = search.Next(); next != "gone"; next = search.Next()) {
    tries_of_b += next == "b" ? 1 : 0;
    ASSERT_LT(tries_of_b, 40) << "it is tried again, some time";
  }
  EXPECT_GT(tries_of_b, 2);
}

TEST(MdcSearch, NoRoundLeavesOutAll) {
  MdcSearch search({"a", "b"});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(search.Next(), "a");
    search.Failed("a", 10'000, "");
    EXPECT_EQ(search.Next(), "b");
    search.Failed("b", 10'000, "");
    EXPECT_EQ(search.Next(), "");
  }
}

TEST(MdcSearch, TheOnlyOneIsNeverLeftOut) {
  MdcSearch search({"a"});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(search.Next(), "a");
    search.Failed("a", 10'000, "");
    EXPECT_EQ(search.Next(), "");
  }
}

}  // namespace
}  // namespace reel::client
