// Sums are zero for what is sound, in whatever order it is seen, and for nothing else that a store
// may hold.
#include "mdc/check/sums.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "mdc/check/checker_facts.h"

namespace reel::mdc::checker {
namespace {

// Which regions have a block that does not have exactly one owner, by counting.
std::vector<bool> Wrong(const SpaceSums& sums, std::uint64_t size,
                        const std::vector<OwnedRun>& runs) {
  std::vector<int> owners(size, 0);
  for (const OwnedRun& run : runs) {
    for (std::uint64_t i = 0; i < run.length_blocks; ++i) ++owners[run.start + i];
  }
  std::vector<bool> wrong(sums.regions(), false);
  for (std::uint64_t block = 0; block < size; ++block) {
    if (owners[block] != 1) wrong[sums.RegionOf(block)] = true;
  }
  return wrong;
}

TEST(SpaceSumsTest, ARegionAgreesExactlyWhereEveryBlockHasOneOwner) {
  std::mt19937 random(1);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t size = 3000 + below(3000);
    std::vector<OwnedRun> runs;
    for (std::uint64_t at = 0; at < size;) {
      const std::uint64_t length = std::min(1 + below(round % 2 ? 8 : 900), size - at);
      runs.push_back({at, length, runs.size()});
      at += length;
    }
    // Some damage: runs that are lost, doubled, moved or cut.
    for (std::uint64_t i = below(4); i > 0; --i) {
      OwnedRun& run = runs[below(runs.size())];
      switch (below(4)) {
        case 0:
          run = runs[below(runs.size())];
          break;
        case 1:
          runs.push_back(run);
          break;
        case 2:
          run.start = below(size - run.length_blocks + 1);
          break;
        default:
          run.length_blocks -= below(run.length_blocks);
      }
    }
    std::shuffle(runs.begin(), runs.end(), random);
    SpaceSums sums(size), others(size);
    for (const OwnedRun& run : runs) (run.owner % 2 ? sums : others).Add(run);
    sums.Add(others);
    const std::vector<bool> wrong = Wrong(sums, size, runs);
    for (std::size_t region = 0; region < sums.regions(); ++region) {
      EXPECT_EQ(sums.Agrees(region), !wrong[region]) << "round " << round << ", " << region;
    }
  }
}

TEST(SpaceSumsTest, RegionsCoverPoolsOfAnySize) {
  for (const std::uint64_t size : {1ull, 1023ull, 1024ull, 1025ull, 1ull << 48, (1ull << 48) + 7}) {
    const SpaceSums sums(size);
    ASSERT_GT(sums.regions(), 0u);
    EXPECT_LE(sums.regions(), 1024u);
    EXPECT_EQ(sums.RegionOf(size - 1), sums.regions() - 1);
    EXPECT_EQ(sums.EndOf(sums.regions() - 1), size);
  }
  EXPECT_EQ(SpaceSums(0).regions(), 0u);
}

class NameSumsTest : public testing::Test {
 protected:
  // Directory 2 in the root, with file 3 of two names, one of them in the root.
  NameSumsTest() {
    inodes_ = {{.inode = 1, .parent = 1, .nlink = 3, .subdirectories = 1, .type = S_IFDIR},
               {.inode = 2, .parent = 1, .nlink = 2, .type = S_IFDIR},
               {.inode = 3, .nlink = 2, .type = S_IFREG}};
    names_ = {{2, 1, 3, S_IFDIR}, {3, 2, 3, S_IFREG}, {3, 1, 4, S_IFREG}};
  }
  bool Agree() {
    NameSums sums(1), others(1);
    for (const InodeFact& fact : inodes_) sums.AddInode(0, fact);
    for (const NameFact& name : names_) others.AddName(0, name);
    sums.Add(others);
    return sums.Agree(0);
  }
  std::vector<InodeFact> inodes_;
  std::vector<NameFact> names_;
};

TEST_F(NameSumsTest, WhatIsSoundAgrees) {
  EXPECT_TRUE(Agree());
  inodes_.push_back({.inode = 4, .nlink = 0, .type = S_IFREG});  // an orphan
  inodes_.push_back({.inode = 5, .parent = 1, .nlink = 0, .type = S_IFDIR});
  EXPECT_TRUE(Agree());
}

TEST_F(NameSumsTest, WhatIsNotDoesNot) {
  const auto inodes = inodes_;
  const auto names = names_;
  const auto wrong = [&](auto change) {
    inodes_ = inodes;
    names_ = names;
    change();
    return !Agree();
  };
  EXPECT_TRUE(wrong([&] { inodes_[2].nlink = 1; }));
  EXPECT_TRUE(wrong([&] { inodes_[2].type = S_IFIFO; }));
  EXPECT_TRUE(wrong([&] { inodes_[2].type = 0; }));
  EXPECT_TRUE(wrong([&] { inodes_.pop_back(); }));
  EXPECT_TRUE(wrong([&] { inodes_.erase(inodes_.begin() + 1); }));
  EXPECT_TRUE(wrong([&] { inodes_[1].parent = 3; }));
  EXPECT_TRUE(wrong([&] { inodes_[1].nlink = 3; }));
  EXPECT_TRUE(wrong([&] { inodes_[1].nlink = 0; }));
  EXPECT_TRUE(wrong([&] { inodes_[0].parent = 2; }));
  EXPECT_TRUE(wrong([&] { inodes_[0].nlink = 0; }));
  EXPECT_TRUE(wrong([&] { names_.pop_back(); }));
  EXPECT_TRUE(wrong([&] { names_.push_back({1, 2, 9, S_IFDIR}); }));
  EXPECT_TRUE(wrong([&] { names_.push_back(names_[0]); }));
  EXPECT_TRUE(wrong([&] { names_[0].directory = 2; }));
  EXPECT_TRUE(wrong([&] { names_[1].type = S_IFDIR; }));
  EXPECT_TRUE(wrong([&] { names_[1].child = 9; }));
}

}  // namespace
}  // namespace reel::mdc::checker
