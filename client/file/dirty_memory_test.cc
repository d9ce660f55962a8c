#include "client/file/dirty_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace reel::client {
namespace {

constexpr std::size_t kBuffer = 16'384;

class DirtyMemoryTest : public testing::Test {
 protected:
  DirtyMemory::Kept Put(std::uint64_t offset, const std::string& bytes, bool fills = false) {
    return memory_.Put(offset, std::as_bytes(std::span(bytes)),
                       {.budget = budget_,
                        .spare = spare_,
                        .buffers = buffers_,
                        .dirty_buffer_bytes = kBuffer,
                        .fills = fills});
  }
  // Dirty, and on its way to the LUNs.
  DirtyBufferRef Send(std::uint64_t offset) {
    Put(offset, "x");
    DirtyBufferRef dirty_buffer = memory_.BuffersIn({offset, offset + 1})[0];
    DirtyMemory::BeginFlight(*dirty_buffer);
    return dirty_buffer;
  }
  std::string Read(std::uint64_t from, std::uint64_t to) const {
    std::string bytes(to - from, '?');
    memory_.Read({from, to}, reinterpret_cast<std::byte*>(bytes.data()));
    return bytes;
  }

  MemoryBudget budget_{65'536};
  SpareMemory spare_;
  BufferPool buffers_{kBuffer, 8 * kBuffer};
  DirtyMemory memory_;
};

TEST_F(DirtyMemoryTest, TracksWhichBytesAreDirty) {
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
  EXPECT_FALSE(memory_.Overlaps({250, kBuffer * 4}));
  EXPECT_EQ(memory_.bytes(), 100u);
  Put(140, std::string(70, 'c'));  // joins them
  EXPECT_TRUE(memory_.Covers({100, 250}));
  EXPECT_EQ(memory_.bytes(), 150u);
  EXPECT_EQ(Read(138, 212), "aa" + std::string(70, 'c') + "bb");
}

TEST_F(DirtyMemoryTest, ARangeMaySpanBuffers) {
  const DirtyMemory::Kept kept = Put(kBuffer - 10, std::string(kBuffer + 20, 'x'));
  ASSERT_EQ(kept.whole.size(), 1u);
  EXPECT_EQ(kept.whole[0]->offset_bytes, kBuffer);
  EXPECT_EQ(memory_.BuffersIn({0, kBuffer * 9}).size(), 3u);
  EXPECT_EQ(memory_.BuffersIn({kBuffer, kBuffer + 1}).size(), 1u);
  EXPECT_TRUE(memory_.BuffersIn({0, kBuffer - 10}).empty());
  EXPECT_TRUE(memory_.Covers({kBuffer - 10, 2 * kBuffer + 10}));
  EXPECT_EQ(Read(kBuffer - 1, kBuffer + 1), "xx");
  // Without the one in the middle, nothing reaches over it.
  memory_.Remove(*kept.whole[0]);
  EXPECT_FALSE(memory_.Covers({kBuffer - 10, 2 * kBuffer + 10}));
  EXPECT_TRUE(memory_.Overlaps({kBuffer - 10, 2 * kBuffer + 10}));
  EXPECT_TRUE(kept.whole[0]->gone);
}

TEST_F(DirtyMemoryTest, ABufferInFlightCountsWhole) {
  Put(0, "x");
  memory_.BuffersIn({0, 1})[0]->in_flight = true;
  EXPECT_TRUE(memory_.InFlight({kBuffer - 1, kBuffer}));
  EXPECT_FALSE(memory_.InFlight({kBuffer, kBuffer + 1}));
}

TEST_F(DirtyMemoryTest, WhatIsDroppedOnItsWayIsStillLanding) {
  const DirtyBufferRef on_its_way = Send(100);
  Put(3 * kBuffer, "y");
  memory_.BuffersIn({3 * kBuffer, 3 * kBuffer + 1})[0]->in_flight = true;  // held by a commit
  memory_.Clear();
  EXPECT_TRUE(memory_.empty());
  EXPECT_EQ(memory_.landing(), 1u);
  const DirtyBufferRef next = Send(100);  // another buffer
  memory_.EndFlight(*next);
  EXPECT_EQ(memory_.landing(), 1u);
  memory_.EndFlight(*on_its_way);
  EXPECT_EQ(memory_.landing(), 0u);
}

TEST_F(DirtyMemoryTest, NobodyWaitsForWhatALostSessionHasSent) {
  const DirtyBufferRef lost = Send(100);
  memory_.Void();
  EXPECT_EQ(memory_.landing(), 0u);
  const DirtyBufferRef next = Send(100);
  memory_.Clear();
  memory_.EndFlight(*lost);
  EXPECT_EQ(memory_.landing(), 1u);
  memory_.EndFlight(*next);
  EXPECT_EQ(memory_.landing(), 0u);
}

TEST_F(DirtyMemoryTest, FillsWhatIsCleanWithZeros) {
  Put(10, "aa");
  Put(20, "bb");
  DirtyBuffer& dirty_buffer = *memory_.BuffersIn({0, kBuffer})[0];
  dirty_buffer.FillWithZeros({8, 21});
  ASSERT_EQ(dirty_buffer.ranges.size(), 1u);
  EXPECT_EQ(Read(8, 22), std::string("\0\0aa\0\0\0\0\0\0\0\0bb", 14));
}

TEST_F(DirtyMemoryTest, CountsThePagesThatItTouches) {
  EXPECT_FALSE(Put(0, std::string(kBuffer, 'x')).crowded);
  EXPECT_FALSE(Put(0, std::string(kBuffer, 'y')).crowded);  // once
  EXPECT_TRUE(Put(kBuffer, std::string(kBuffer + 1, 'x')).crowded);
  EXPECT_FALSE(Put(2 * kBuffer, std::string(kBuffer, 'x')).crowded);  // that was said
  EXPECT_TRUE(budget_.has_room());
  Put(3 * kBuffer, std::string(kBuffer, 'x'));
  EXPECT_FALSE(budget_.has_room());
  memory_.Remove(*memory_.BuffersIn({0, 1})[0]);
  EXPECT_TRUE(budget_.has_room());
  memory_.Clear();
  Put(0, std::string(kBuffer, 'x'));
  EXPECT_TRUE(Put(kBuffer, std::string(kBuffer + 1, 'x')).crowded);
}

TEST_F(DirtyMemoryTest, AStreamReusesTheMemoryOfItsBuffers) {
  Put(0, std::string(kBuffer, 'x'), /*fills=*/true);
  memory_.Clear();
  EXPECT_EQ(buffers_.kept_bytes(), kBuffer);
  // It is there as a whole, and counts as such; what was in it is nobody's.
  EXPECT_FALSE(Put(kBuffer + 10, "ab", /*fills=*/true).crowded);
  EXPECT_EQ(buffers_.kept_bytes(), 0u);
  EXPECT_FALSE(Put(2 * kBuffer, "c", /*fills=*/true).crowded);
  EXPECT_TRUE(Put(3 * kBuffer, "d", /*fills=*/true).crowded);
  EXPECT_FALSE(memory_.Covers({kBuffer + 9, kBuffer + 11}));
  DirtyBuffer& dirty_buffer = *memory_.BuffersIn({kBuffer, 2 * kBuffer})[0];
  dirty_buffer.FillWithZeros({kBuffer + 8, kBuffer + 14});
  EXPECT_EQ(Read(kBuffer + 8, kBuffer + 14), std::string("\0\0ab\0\0", 6));
  memory_.Clear();
  Put(0, "x");
  memory_.Clear();
  EXPECT_EQ(buffers_.kept_bytes(), 3 * kBuffer);  // that one was new, and touched in part
}

TEST_F(DirtyMemoryTest, ASmallFileLeavesItsMemoryToTheNext) {
  Put(0, std::string(5'000, 'a'));
  const std::byte* const first = memory_.BuffersIn({0, 1})[0]->memory.buffer.data();
  memory_.Clear();
  Put(kBuffer + 10, "b");
  const DirtyBuffer& second = *memory_.BuffersIn({0, 2 * kBuffer})[0];
  EXPECT_EQ(second.memory.buffer.data(), first);
  EXPECT_EQ(second.held_bytes(), 8'192u);  // the pages of both, for they are all there
  EXPECT_FALSE(memory_.Covers({kBuffer, kBuffer + 11}));
  Put(2 * kBuffer, "c");  // another one meanwhile is new
  EXPECT_EQ(memory_.BuffersIn({2 * kBuffer, 2 * kBuffer + 1})[0]->held_bytes(), 4'096u);
  memory_.Clear();
  Put(0, std::string(kBuffer, 'd'));
  memory_.Clear();
  Put(0, "e");
  EXPECT_NE(memory_.BuffersIn({0, 1})[0]->held_bytes(), kBuffer);  // that much is not kept
}

TEST_F(DirtyMemoryTest, FlushedBytesStayKnownUntilForgotten) {
  Put(10, "aa");
  DirtyBuffer& dirty_buffer = *memory_.BuffersIn({0, kBuffer})[0];
  const std::uint64_t id = dirty_buffer.id;
  dirty_buffer.Learn({0, 512}, std::vector<std::byte>(512, std::byte{'l'}).data());
  EXPECT_EQ(Read(8, 14), "llaall");  // not what it knew better
  EXPECT_FALSE(dirty_buffer.Overlaps({0, 10}));
  memory_.Keep(dirty_buffer);
  EXPECT_TRUE(memory_.empty());
  EXPECT_TRUE(memory_.BuffersIn({0, kBuffer}).empty());
  EXPECT_FALSE(memory_.Overlaps({0, kBuffer}));
  EXPECT_TRUE(memory_.Covers({0, 512}));

  Put(11, "b");  // dirty again, as a new one would be
  EXPECT_EQ(memory_.BuffersIn({0, kBuffer})[0].get(), &dirty_buffer);
  EXPECT_GT(dirty_buffer.id, id);
  EXPECT_EQ(memory_.bytes(), 1u);
  EXPECT_EQ(Read(8, 14), "llabll");
  memory_.Forget({kBuffer, 2 * kBuffer});
  EXPECT_TRUE(memory_.Covers({0, 512}));
  memory_.Forget({600, 601});  // of its buffer, all that is clean
  EXPECT_FALSE(memory_.Covers({10, 12}));
  EXPECT_TRUE(memory_.Covers({11, 12}));
  memory_.Keep(dirty_buffer);
  memory_.Forget({0, 1});
  EXPECT_FALSE(memory_.Covers({11, 12}));
  EXPECT_TRUE(memory_.empty());
}

TEST_F(DirtyMemoryTest, KeepsFewFlushedBuffers) {
  for (std::uint64_t i = 0; i < 6; ++i) {
    Put(i * kBuffer, "x");
    memory_.Keep(*memory_.BuffersIn({i * kBuffer, i * kBuffer + 1})[0]);
  }
  EXPECT_FALSE(memory_.Covers({0, 1}));
  EXPECT_FALSE(memory_.Covers({kBuffer, kBuffer + 1}));
  for (std::uint64_t i = 2; i < 6; ++i) EXPECT_TRUE(memory_.Covers({i * kBuffer, i * kBuffer + 1}));
}

}  // namespace
}  // namespace reel::client
