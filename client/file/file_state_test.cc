// The rules between the parts of a FileState.
#include "client/file/file_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/convert.h"

namespace reel::client {
namespace {

constexpr std::uint32_t kBlock = 4096;
constexpr std::size_t kManyRanges = 1'000;

class FileStateTest : public testing::Test {
 protected:
  const FileRef file_ = std::make_shared<FileState>(1, kBlock);

  // Blocks [0, blocks) of a file that ends with them, all of one state.
  void Grant(v1::TokenMode mode, v1::ExtentState state, std::uint64_t blocks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_->mutex) {
    v1::LayoutReply reply;
    reply.set_mode(mode);
    reply.set_length_blocks(blocks);
    v1::Extent& extent = *reply.add_extents();
    extent.set_length_blocks(blocks);
    extent.set_state(state);
    extent.set_pool(1);
    extent.set_pool_block(100);
    reply.mutable_attr()->set_size_bytes(blocks * kBlock);
    ASSERT_TRUE(file_->Install(reply, /*session_id=*/7).ok());
  }
  void Write(std::uint64_t from_bytes, std::uint64_t end_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_->mutex) {
    ExtentList extents;
    ASSERT_FALSE(file_->grant.Cover(from_bytes, end_bytes - from_bytes, extents));
    (void)file_->NoteWritten(
        {.offset_bytes = from_bytes, .end_bytes = end_bytes, .time = {.seconds = 50}}, extents,
        {{.lun = 0, .first = 1, .last = 1}});
  }
  ExtentState StateOf(std::uint64_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_->mutex) {
    return file_->grant.Find(FileBlock(block)).value_or(Extent{}).state;
  }
};

TEST_F(FileStateTest, ANewLayoutKeepsDirtyBlocksWritten) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  Write(0, kBlock);
  Uncommitted::Taken taken = file_->uncommitted.Begin(kManyRanges, true);
  Write(kBlock, 2 * kBlock);
  file_->ForgetExtents();
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  EXPECT_EQ(StateOf(0), ExtentState::kWritten);
  EXPECT_EQ(StateOf(1), ExtentState::kWritten);
  EXPECT_EQ(StateOf(2), ExtentState::kUnwritten);
}

TEST_F(FileStateTest, AFailedFlushLosesUncommittedBlocks) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  Write(0, kBlock);
  Uncommitted::Taken taken = file_->uncommitted.Begin(kManyRanges, true);
  Write(kBlock, 2 * kBlock);
  file_->LoseDirty();
  EXPECT_EQ(StateOf(0), ExtentState::kWritten) << "of that the commit decides";
  EXPECT_EQ(StateOf(1), ExtentState::kUnwritten);
  EXPECT_EQ(file_->uncommitted.lost_flushes(), 1u);
}

TEST_F(FileStateTest, NoExclusiveUseBeginsWhileACommitRuns) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  Write(0, kBlock);
  Uncommitted::Taken taken = file_->uncommitted.Begin(kManyRanges, true);
  EXPECT_FALSE(file_->EnterExclusive());
  EXPECT_FALSE(file_->idle() || file_->drained() || file_->unused());
  file_->uncommitted.End(taken);
  EXPECT_TRUE(file_->unused());
  EXPECT_TRUE(file_->EnterExclusive());
  EXPECT_FALSE(file_->drained());
}

// Its blocks may be another file's by then.
TEST_F(FileStateTest, NothingGoesBackWhileDroppedBytesAreLanding) {
  MutexLock lock(file_->mutex);
  MemoryBudget budget(65'536);
  SpareMemory spare;
  BufferPool buffers(16'384, 65'536);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  const std::string bytes(10, 'x');
  file_->memory.Put(
      0, std::as_bytes(std::span(bytes)),
      {.budget = budget, .spare = spare, .buffers = buffers, .dirty_buffer_bytes = 16'384});
  const DirtyBufferRef on_its_way = file_->memory.BuffersIn({0, 1})[0];
  DirtyMemory::BeginFlight(*on_its_way);
  file_->ReplayFailed();
  EXPECT_TRUE(file_->memory.empty());
  EXPECT_FALSE(file_->EnterExclusive());
  EXPECT_FALSE(file_->idle() || file_->drained() || file_->unused());
  file_->memory.EndFlight(*on_its_way);
  EXPECT_TRUE(file_->unused() && file_->drained());
}

TEST_F(FileStateTest, ARecallDoesNotWaitForPassingRequests) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_WRITTEN, 8);
  ASSERT_TRUE(file_->recall.Begin({.span = {.end = FileBlock(2)}}, {.first = FileBlock(6)}));
  ASSERT_TRUE(file_->users.EnterShared());
  EXPECT_FALSE(file_->drained());
  (void)file_->recall.EnterPassing();
  EXPECT_TRUE(file_->drained());
  EXPECT_FALSE(file_->idle());
}

TEST_F(FileStateTest, TheHolderOfTheTokenKnowsSizeAndTime) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  Write(0, kBlock);
  v1::Attr theirs;
  theirs.set_size_bytes(5);
  file_->TakeAttr(theirs);
  EXPECT_EQ(file_->attr.size_bytes(), 8 * kBlock);
  EXPECT_EQ(file_->attr.mtime().seconds(), 50);
  file_->LowerToken(kWholeFile, v1::TOKEN_NONE);
  file_->TakeAttr(theirs);
  EXPECT_EQ(file_->attr.size_bytes(), 5u);
}

TEST_F(FileStateTest, ATokenGoesWhenAllThatItCoversIsCommitted) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  EXPECT_FALSE(file_->DirtyIn(kWholeFile));
  Write(0, kBlock);
  EXPECT_TRUE(file_->DirtyIn({.end = FileBlock(1)}));
  EXPECT_FALSE(file_->DirtyIn({.first = FileBlock(4)})) << "the rest is still held to write";
  EXPECT_TRUE(file_->DirtyIn(kWholeFile));
}

// Its bytes go to the controller as a whole, or get blocks: both take all of the token.
TEST_F(FileStateTest, BytesWithoutABlockKeepAllOfTheToken) {
  MemoryBudget budget{1 << 20};
  SpareMemory spare;
  BufferPool buffers{4 * kBlock, 16 * kBlock};
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_HOLE, 2);
  const std::vector<std::byte> bytes(100);
  EXPECT_FALSE(file_->DirtyIn({.first = FileBlock(1)}));
  (void)file_->memory.Put(
      0, bytes,
      {.budget = budget, .spare = spare, .buffers = buffers, .dirty_buffer_bytes = 4 * kBlock});
  EXPECT_TRUE(file_->DirtyIn({.first = FileBlock(1)}));
  file_->memory.Clear();
}

TEST_F(FileStateTest, ATruncationForgetsTheBlocksBeyond) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_WRITTEN, 8);
  v1::Attr now = file_->attr;
  now.set_size_bytes(2 * kBlock + 1);
  file_->TakeResized(now);
  EXPECT_TRUE(file_->grant.Find(FileBlock(2)));
  EXPECT_FALSE(file_->grant.Find(FileBlock(3)));
  file_->TakeReallocated(&now, {FileBlock(1), 1});
  EXPECT_TRUE(file_->grant.Find(FileBlock(0)));
  EXPECT_FALSE(file_->grant.Find(FileBlock(1)));
  file_->TakeReallocated(nullptr, {FileBlock(0), 1});
  EXPECT_FALSE(file_->grant.Find(FileBlock(0)));
  EXPECT_EQ(file_->attr.size_bytes(), now.size_bytes());
}

TEST_F(FileStateTest, ALostSessionTakesTheFilesStateAlong) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  file_->opens.Create(/*handle=*/1, /*told=*/3);
  Write(0, kBlock);
  ASSERT_TRUE(file_->recall.Begin({}, {}));
  const std::uint64_t lost_sessions = file_->grant.lost_sessions();
  file_->Void();
  EXPECT_NE(file_->grant.lost_sessions(), lost_sessions);
  EXPECT_TRUE(file_->grant.empty() && !file_->uncommitted.any() && !file_->recall.under_way());
  EXPECT_TRUE(file_->opens.any() && !file_->opens.registered());
  EXPECT_TRUE(file_->write_error.unreported());
}

TEST_F(FileStateTest, ARemovedFileKeepsSizeAndTimesOfItsWrites) {
  MutexLock lock(file_->mutex);
  Grant(v1::TOKEN_EXCLUSIVE, v1::EXTENT_UNWRITTEN, 8);
  Write(0, kBlock);
  v1::Attr removed;
  removed.set_size_bytes(5);
  file_->TakeRemoved(removed);
  EXPECT_EQ(removed.size_bytes(), 8 * kBlock);
  EXPECT_EQ(file_->attr.size_bytes(), 8 * kBlock);
  EXPECT_TRUE(file_->grant.empty());
}

}  // namespace
}  // namespace reel::client
