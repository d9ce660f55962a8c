#include "client/base/block_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace reel::client {
namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;

std::vector<Range> RangesOf(const BlockSet& blocks) {
  std::vector<Range> ranges;
  blocks.ForEach(
      [&](FileBlock start, std::uint64_t length) { ranges.emplace_back(start.value(), length); });
  return ranges;
}

TEST(BlockSetTest, MergesWhatTouches) {
  BlockSet blocks;
  blocks.Add(FileBlock(10), 5);
  blocks.Add(FileBlock(20), 5);
  blocks.Add(FileBlock(0), 0);
  EXPECT_EQ(RangesOf(blocks), (std::vector<Range>{{10, 5}, {20, 5}}));
  blocks.Add(FileBlock(15), 5);
  EXPECT_EQ(RangesOf(blocks), (std::vector<Range>{{10, 15}}));
}

TEST(BlockSetTest, TakesTheLowestRanges) {
  BlockSet blocks, taken;
  for (int i = 0; i < 5; ++i) blocks.Add(FileBlock(i * 10), 2);
  blocks.TakeRanges(2, taken);
  EXPECT_EQ(RangesOf(taken), (std::vector<Range>{{0, 2}, {10, 2}}));
  EXPECT_EQ(blocks.range_count(), 3u);
}

TEST(BlockSetTest, BehavesAsASetOfBlocks) {
  std::mt19937_64 random(7);
  BlockSet blocks;
  std::set<std::uint64_t> model;
  for (int step = 0; step < 2000; ++step) {
    const std::uint64_t start = random() % 500, length = random() % 4;
    blocks.Add(FileBlock(start), length);
    for (std::uint64_t i = 0; i < length; ++i) model.insert(start + i);
    const std::uint64_t from = random() % 500, count = 1 + random() % 50;
    std::set<std::uint64_t> seen;
    blocks.ForEachIn(FileBlock(from), count, [&](FileBlock at, std::uint64_t n) {
      for (std::uint64_t i = 0; i < n; ++i) seen.insert(at.value() + i);
    });
    const std::set<std::uint64_t> expected(model.lower_bound(from),
                                           model.lower_bound(from + count));
    ASSERT_EQ(seen, expected) << "step " << step;
    if (step % 300 == 299) blocks.Clear(), model.clear();
  }
}

}  // namespace
}  // namespace reel::client
