#include "mdc/metadb/empty_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace reel::mdc {
namespace {

void Change(EmptyRanges& ranges, const std::string& key, bool remove) {
  WriteBatch batch;
  if (remove) {
    batch.Delete(key);
  } else {
    batch.Put(key, "value");
  }
  ranges.Applied(batch);
}
void Put(EmptyRanges& ranges, const std::string& key) {
  Change(ranges, key, false);
}
void Remove(EmptyRanges& ranges, const std::string& key) {
  Change(ranges, key, true);
}
// A scan that is over at once.
void Learn(EmptyRanges& ranges, const std::string& from, const std::string& to) {
  const EmptyRanges::Mark mark = ranges.Begin();
  ranges.Learn(mark, from, to);
  ranges.End();
}
// Where a scan that begins now gets to from `key` without looking.
std::string JumpFrom(EmptyRanges& ranges, const std::string& key) {
  const EmptyRanges::Mark mark = ranges.Begin();
  const auto range = ranges.Find(mark, key);
  ranges.End();
  return range && range->usable && range->from <= key ? range->to : key;
}

TEST(EmptyRanges, AScanSkipsARangeThatAnotherFoundEmpty) {
  EmptyRanges ranges(100);
  Learn(ranges, "b", "f");
  EXPECT_EQ(JumpFrom(ranges, "a"), "a");
  EXPECT_EQ(JumpFrom(ranges, "b"), "f");
  EXPECT_EQ(JumpFrom(ranges, "e"), "f");
  EXPECT_EQ(JumpFrom(ranges, "f"), "f");
}

TEST(EmptyRanges, APutSplitsARangeAndItsRemovalJoinsItAgain) {
  EmptyRanges ranges(100);
  Learn(ranges, "b", "f");
  Put(ranges, "d");
  EXPECT_EQ(JumpFrom(ranges, "b"), "d");
  EXPECT_EQ(JumpFrom(ranges, "d"), "d");
  EXPECT_EQ(JumpFrom(ranges, "dd"), "f");
  Remove(ranges, "d");
  EXPECT_EQ(JumpFrom(ranges, "b"), "f");
  EXPECT_EQ(ranges.size(), 1u);
  Put(ranges, "b");
  EXPECT_EQ(JumpFrom(ranges, "b"), "b");
  Remove(ranges, "b");
  EXPECT_EQ(JumpFrom(ranges, "b"), "f");
  Remove(ranges, "f");  // the next one that was there
  EXPECT_EQ(JumpFrom(ranges, "b"), std::string("f\0", 2));
}

TEST(EmptyRanges, AScanLearnsNothingWhereAKeyWasPutMeanwhile) {
  EmptyRanges ranges(100);
  const EmptyRanges::Mark mark = ranges.Begin();
  Put(ranges, "d");
  ranges.Learn(mark, "b", "f");
  ranges.End();
  EXPECT_EQ(JumpFrom(ranges, "b"), "d");
  EXPECT_EQ(JumpFrom(ranges, "d"), "d");
  EXPECT_EQ(JumpFrom(ranges, "e"), "f");
}

TEST(EmptyRanges, AnOlderSnapshotSkipsNoLaterRemoval) {
  EmptyRanges ranges(100);
  Learn(ranges, "b", "d");
  const EmptyRanges::Mark mark = ranges.Begin();
  Remove(ranges, "d");
  EXPECT_FALSE(ranges.Find(mark, "b")->usable);
  ranges.End();
  EXPECT_EQ(JumpFrom(ranges, "b"), std::string("d\0", 2));
}

TEST(EmptyRanges, AScanThatRanThroughTooManyPutsLearnsNothing) {
  EmptyRanges ranges(100);
  const EmptyRanges::Mark mark = ranges.Begin();
  Put(ranges, "d");
  for (int i = 0; i < 10'000; ++i) Put(ranges, "x");
  ranges.Learn(mark, "b", "f");
  ranges.End();
  EXPECT_EQ(ranges.size(), 0u);
}

TEST(EmptyRanges, ABatchsClearedRangeIsKnownEmptyExceptItsPuts) {
  EmptyRanges ranges(100);
  WriteBatch batch;
  batch.Delete("c");
  batch.Put("d", "value");
  batch.Cleared("b", "f");
  ranges.Applied(batch);
  EXPECT_EQ(JumpFrom(ranges, "b"), "d");
  EXPECT_EQ(JumpFrom(ranges, "e"), "f");
}

// Against the keys themselves: scans begin and end among changes, and tell what they saw.
TEST(EmptyRanges, NeverSaysEmptyWhereThereIsAKey) {
  std::mt19937 random(1);
  const auto key = [](unsigned number) { return std::string(1, static_cast<char>('a' + number)); };
  for (int round = 0; round < 200; ++round) {
    EmptyRanges ranges(round % 2 == 0 ? 1000 : 3);
    std::set<std::string> keys;
    struct Scan {
      EmptyRanges::Mark mark;
      std::set<std::string> snapshot;
    };
    std::vector<Scan> scans;
    for (int step = 0; step < 300; ++step) {
      const std::string at = key(random() % 20);
      switch (random() % 6) {
        case 0:
          keys.insert(at);
          Put(ranges, at);
          break;
        case 1:
        case 2:
          keys.erase(at);
          Remove(ranges, at);
          break;
        case 3: {
          const EmptyRanges::Mark mark = ranges.Begin();
          scans.push_back({mark, keys});
          break;
        }
        default: {
          if (scans.empty()) break;
          const std::size_t which = random() % scans.size();
          const Scan& scan = scans[which];
          const auto next = scan.snapshot.lower_bound(at);
          const std::string to = next == scan.snapshot.end() ? "z" : *next;
          ranges.Learn(scan.mark, at, to);
          const auto known = ranges.Find(scan.mark, at);
          if (known && known->usable) {
            const auto inside = scan.snapshot.lower_bound(known->from);
            ASSERT_TRUE(inside == scan.snapshot.end() || *inside >= known->to);
          }
          if (random() % 2 == 0) break;
          scans.erase(scans.begin() + static_cast<std::ptrdiff_t>(which));
          ranges.End();
        }
      }
      for (unsigned i = 0; i < 20; ++i) {
        const std::string to = JumpFrom(ranges, key(i));
        const auto next = keys.lower_bound(key(i));
        ASSERT_TRUE(next == keys.end() || to <= *next) << key(i) << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace reel::mdc
