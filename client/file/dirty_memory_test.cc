#include "client/file/dirty_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace reel::client {
namespace {

constexpr std::size_t kWindow = 16'384;

class DirtyMemoryTest : public testing::Test {
 protected:
  DirtyMemory::Kept Put(std::uint64_t offset, const std::string& bytes, bool fills = false) {
    return memory_.Put(offset, std::as_bytes(std::span(bytes)),
                       {.budget = budget_,
                        .spare = spare_,
                        .buffers = buffers_,
                        .window_bytes = kWindow,
                        .fills = fills});
  }
  std::string Read(std::uint64_t from, std::uint64_t to) const {
    std::string bytes(to - from, '?');
    memory_.Read({from, to}, reinterpret_cast<std::byte*>(bytes.data()));
    return bytes;
  }

  MemoryBudget budget_{65'536};
  SpareMemory spare_;
  BufferPool buffers_{kWindow, 8 * kWindow};
  DirtyMemory memory_;
};

TEST_F(DirtyMemoryTest, KnowsWhichBytesItHas) {
  EXPECT_TRUE(memory_.empty());
  Put(100, std::string(50, 'a'));
  Put(200, std::string(50, 'b'));
  EXPECT_TRUE(memory_.Covers({100, 150}));
  EXPECT_FALSE(memory_.Covers({100, 151}));
  EXPECT_FALSE(memory_.Covers({99, 150}));
  EXPECT_FALSE(memory_.Covers({100, 250}));
  EXPECT_FALSE(memory_.Overlaps({150, 200}));
  EXPECT_TRUE(memory_.Overlaps({149, 150}));
  EXPECT_TRUE(memory_.Overlaps({0, 201}));
  EXPECT_FALSE(memory_.Overlaps({250, kWindow * 4}));
  EXPECT_EQ(memory_.bytes(), 100u);
  Put(140, std::string(70, 'c'));  // joins them
  EXPECT_TRUE(memory_.Covers({100, 250}));
  EXPECT_EQ(memory_.bytes(), 150u);
  EXPECT_EQ(Read(138, 212), "aa" + std::string(70, 'c') + "bb");
}

TEST_F(DirtyMemoryTest, ReachesOverWindows) {
  const DirtyMemory::Kept kept = Put(kWindow - 10, std::string(kWindow + 20, 'x'));
  ASSERT_EQ(kept.whole.size(), 1u);
  EXPECT_EQ(kept.whole[0]->offset_bytes, kWindow);
  EXPECT_EQ(memory_.WindowsIn({0, kWindow * 9}).size(), 3u);
  EXPECT_EQ(memory_.WindowsIn({kWindow, kWindow + 1}).size(), 1u);
  EXPECT_TRUE(memory_.WindowsIn({0, kWindow - 10}).empty());
  EXPECT_TRUE(memory_.Covers({kWindow - 10, 2 * kWindow + 10}));
  EXPECT_EQ(Read(kWindow - 1, kWindow + 1), "xx");
  // Without the one in the middle, nothing reaches over it.
  memory_.Remove(*kept.whole[0]);
  EXPECT_FALSE(memory_.Covers({kWindow - 10, 2 * kWindow + 10}));
  EXPECT_TRUE(memory_.Overlaps({kWindow - 10, 2 * kWindow + 10}));
  EXPECT_TRUE(kept.whole[0]->gone);
}

TEST_F(DirtyMemoryTest, AWindowInFlightCountsWhole) {
  Put(0, "x");
  memory_.WindowsIn({0, 1})[0]->in_flight = true;
  EXPECT_TRUE(memory_.InFlight({kWindow - 1, kWindow}));
  EXPECT_FALSE(memory_.InFlight({kWindow, kWindow + 1}));
}

TEST_F(DirtyMemoryTest, FillsWhatIsCleanWithZeros) {
  Put(10, "aa");
  Put(20, "bb");
  DirtyWindow& window = *memory_.WindowsIn({0, kWindow})[0];
  window.FillWithZeros({8, 21});
  ASSERT_EQ(window.ranges.size(), 1u);
  EXPECT_EQ(Read(8, 22), std::string("\0\0aa\0\0\0\0\0\0\0\0bb", 14));
}

TEST_F(DirtyMemoryTest, CountsThePagesThatItTouches) {
  EXPECT_FALSE(Put(0, std::string(kWindow, 'x')).crowded);
  EXPECT_FALSE(Put(0, std::string(kWindow, 'y')).crowded);  // once
  EXPECT_TRUE(Put(kWindow, std::string(kWindow + 1, 'x')).crowded);
  EXPECT_FALSE(Put(2 * kWindow, std::string(kWindow, 'x')).crowded);  // that was said
  EXPECT_TRUE(budget_.has_room());
  Put(3 * kWindow, std::string(kWindow, 'x'));
  EXPECT_FALSE(budget_.has_room());
  memory_.Remove(*memory_.WindowsIn({0, 1})[0]);
  EXPECT_TRUE(budget_.has_room());
  memory_.Clear();
  Put(0, std::string(kWindow, 'x'));
  EXPECT_TRUE(Put(kWindow, std::string(kWindow + 1, 'x')).crowded);
}

TEST_F(DirtyMemoryTest, WhatFillsItsWindowsUsesTheirMemoryAgain) {
  Put(0, std::string(kWindow, 'x'), /*fills=*/true);
  memory_.Clear();
  EXPECT_EQ(buffers_.kept_bytes(), kWindow);
  // It is there as a whole, and counts as such; what was in it is nobody's.
  EXPECT_FALSE(Put(kWindow + 10, "ab", /*fills=*/true).crowded);
  EXPECT_EQ(buffers_.kept_bytes(), 0u);
  EXPECT_FALSE(Put(2 * kWindow, "c", /*fills=*/true).crowded);
  EXPECT_TRUE(Put(3 * kWindow, "d", /*fills=*/true).crowded);
  EXPECT_FALSE(memory_.Covers({kWindow + 9, kWindow + 11}));
  DirtyWindow& window = *memory_.WindowsIn({kWindow, 2 * kWindow})[0];
  window.FillWithZeros({kWindow + 8, kWindow + 14});
  EXPECT_EQ(Read(kWindow + 8, kWindow + 14), std::string("\0\0ab\0\0", 6));
  memory_.Clear();
  Put(0, "x");
  memory_.Clear();
  EXPECT_EQ(buffers_.kept_bytes(), 3 * kWindow);  // that one was new, and touched in part
}

TEST_F(DirtyMemoryTest, WhatTouchedLittleLeavesItsMemoryToTheNext) {
  Put(0, std::string(5'000, 'a'));
  const std::byte* const first = memory_.WindowsIn({0, 1})[0]->memory.buffer.data();
  memory_.Clear();
  Put(kWindow + 10, "b");
  const DirtyWindow& second = *memory_.WindowsIn({0, 2 * kWindow})[0];
  EXPECT_EQ(second.memory.buffer.data(), first);
  EXPECT_EQ(second.held_bytes(), 8'192u);  // the pages of both, for they are all there
  EXPECT_FALSE(memory_.Covers({kWindow, kWindow + 11}));
  Put(2 * kWindow, "c");  // another one meanwhile is new
  EXPECT_EQ(memory_.WindowsIn({2 * kWindow, 2 * kWindow + 1})[0]->held_bytes(), 4'096u);
  memory_.Clear();
  Put(0, std::string(kWindow, 'd'));
  memory_.Clear();
  Put(0, "e");
  EXPECT_NE(memory_.WindowsIn({0, 1})[0]->held_bytes(), kWindow);  // that much is not kept
}

TEST_F(DirtyMemoryTest, KeepsWhatItHasFlushedUntilItIsToForget) {
  Put(10, "aa");
  DirtyWindow& window = *memory_.WindowsIn({0, kWindow})[0];
  const std::uint64_t id = window.id;
  window.Learn({0, 512}, std::vector<std::byte>(512, std::byte{'l'}).data());
  EXPECT_EQ(Read(8, 14), "llaall");  // not what it knew better
  EXPECT_FALSE(window.Overlaps({0, 10}));
  memory_.Keep(window);
  EXPECT_TRUE(memory_.empty());
  EXPECT_TRUE(memory_.WindowsIn({0, kWindow}).empty());
  EXPECT_FALSE(memory_.Overlaps({0, kWindow}));
  EXPECT_TRUE(memory_.Covers({0, 512}));

  Put(11, "b");  // dirty again, as a new one would be
  EXPECT_EQ(memory_.WindowsIn({0, kWindow})[0].get(), &window);
  EXPECT_GT(window.id, id);
  EXPECT_EQ(memory_.bytes(), 1u);
  EXPECT_EQ(Read(8, 14), "llabll");
  memory_.Forget({kWindow, 2 * kWindow});
  EXPECT_TRUE(memory_.Covers({0, 512}));
  memory_.Forget({600, 601});  // of its window, all that is clean
  EXPECT_FALSE(memory_.Covers({10, 12}));
  EXPECT_TRUE(memory_.Covers({11, 12}));
  memory_.Keep(window);
  memory_.Forget({0, 1});
  EXPECT_FALSE(memory_.Covers({11, 12}));
  EXPECT_TRUE(memory_.empty());
}

TEST_F(DirtyMemoryTest, KeepsAFew) {
  for (std::uint64_t i = 0; i < 6; ++i) {
    Put(i * kWindow, "x");
    memory_.Keep(*memory_.WindowsIn({i * kWindow, i * kWindow + 1})[0]);
  }
  EXPECT_FALSE(memory_.Covers({0, 1}));
  EXPECT_FALSE(memory_.Covers({kWindow, kWindow + 1}));
  for (std::uint64_t i = 2; i < 6; ++i) EXPECT_TRUE(memory_.Covers({i * kWindow, i * kWindow + 1}));
}

}  // namespace
}  // namespace reel::client
