// Operations on what users have made very large or deep take steps, each of which is short.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include "mdc/metadb/schema.h"
#include "mdc/ops/allocate.h"
#include "mdc/ops/extents.h"
#include "mdc/ops/layout.h"
#include "mdc/ops/orphans.h"
#include "mdc/testing/op_fixture.h"
#include "volume/testing/long_run.h"

namespace reel::mdc {
namespace {

const std::uint64_t kMany = IsLongRun() ? 1'000'000 : 100'000;
constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

class StepsTest : public OpFixture {
 protected:
  explicit StepsTest(std::uint64_t data_stripes = 1 << 18) : OpFixture(data_stripes) {}

  std::uint64_t MakeScattered(std::uint64_t count, bool written = true) {
    const std::uint64_t file = MakeFile(kRoot, "scattered");
    Scatter(file, count, written);
    tokens_.Grant(kMe, InodeNumber(file), v1::TOKEN_EXCLUSIVE);
    return file;
  }
  int Fallocate(std::uint64_t file, int mode, std::uint64_t blocks) {
    v1::Request request;
    request.mutable_allocate()->set_inode(file);
    request.mutable_allocate()->set_mode(static_cast<std::uint32_t>(mode));
    request.mutable_allocate()->set_length_bytes(blocks * volume_.block_bytes);
    return Do(Allocate, request);
  }
  std::vector<Extent> Read(std::uint64_t file, std::uint64_t blocks) {
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    auto extents = ReadExtents(txn, InodeNumber(file), FileBlock(0), blocks, 50'000);
    EXPECT_TRUE(extents.ok()) << extents.status();
    return extents.ok() ? *std::move(extents) : std::vector<Extent>();
  }
  // Of the last operation: its steps were many, and each short.
  void ExpectSteps(int least) {
    EXPECT_GE(steps_, least);
    EXPECT_LE(most_changes_, 6 * kStepExtents);
    EXPECT_LE(most_reads_, 4 * kStepExtents);
  }
};

TEST_F(StepsTest, AHoleIsPunchedInSteps) {
  const std::uint64_t file = MakeScattered(kMany);
  ASSERT_EQ(Fallocate(file, kPunch, 2 * kMany), 0);
  ExpectSteps(kMany / kStepExtents);
  EXPECT_EQ(ExtentCount(file), 0u);
  EXPECT_EQ(Attributes(file).allocated_bytes(), 0u);
}

TEST_F(StepsTest, HolesAreFilledInSteps) {
  const std::uint64_t file = MakeScattered(kMany);
  ASSERT_EQ(Fallocate(file, 0, 2 * kMany), 0);
  ExpectSteps(kMany / kStepExtents);
  EXPECT_EQ(Attributes(file).allocated_bytes(), 2 * kMany * volume_.block_bytes);
}

TEST_F(StepsTest, ZeroingTakesSteps) {
  const std::uint64_t file = MakeScattered(10 * kStepExtents);
  ASSERT_EQ(Fallocate(file, FALLOC_FL_ZERO_RANGE, 20 * kStepExtents), 0);
  ExpectSteps(10);
  std::uint64_t blocks = 0;
  for (const Extent& extent : Read(file, 20 * kStepExtents)) {
    EXPECT_EQ(extent.state, ExtentState::kUnwritten);
    blocks += extent.length_blocks;
  }
  EXPECT_EQ(blocks, 20 * kStepExtents);
  ExpectSound();
}

TEST_F(StepsTest, AnEditWaitsForThePendingTruncation) {
  const std::uint64_t file = MakeScattered(kMany);
  ASSERT_EQ(Truncate(file, 0), 0);
  EXPECT_LE(last_batch_changes_, 6 * kReapExtents);
  v1::Request request;
  request.mutable_layout_get()->set_inode(file);
  request.mutable_layout_get()->set_mode(v1::TOKEN_EXCLUSIVE);
  request.mutable_layout_get()->set_allocate(true);
  request.mutable_layout_get()->set_length_bytes(1);
  EXPECT_NE(Do(LayoutGet, request), 0);
  EXPECT_EQ(blocked_, InodeNumber(file));
  EXPECT_LE(most_reads_, 4 * kStepExtents);
  opens_.Open(kMe, InodeNumber(file));
  EXPECT_GE(Reap(), static_cast<int>(kMany / kReapExtents) - 1);
  EXPECT_EQ(ExtentCount(file), 0u);
  EXPECT_EQ(Do(LayoutGet, request), 0);
}

TEST_F(StepsTest, ACrashBetweenStepsIsFinishedByTheRepetition) {
  constexpr std::uint64_t kCount = 10 * kStepExtents;
  for (const int mode : {kPunch, 0, FALLOC_FL_ZERO_RANGE}) {
    for (const int steps : {1, 3, 10}) {
      const std::uint64_t file = MakeScattered(kCount);
      dies_after_ = steps;
      ASSERT_EQ(Fallocate(file, mode, 2 * kCount), 0);
      ASSERT_EQ(steps_, steps);
      ExpectSound();
      Restart();
      dies_after_ = 0;
      tokens_.Grant(kMe, InodeNumber(file), v1::TOKEN_EXCLUSIVE);
      ASSERT_EQ(Fallocate(file, mode, 2 * kCount), 0);
      EXPECT_EQ(Attributes(file).allocated_bytes(),
                mode == kPunch ? 0 : 2 * kCount * volume_.block_bytes);
      ExpectSound();
      tokens_ = TokenTable();
      ASSERT_EQ(Unlink(kRoot, "scattered"), 0);
      Reap();
    }
  }
}

TEST_F(StepsTest, AnOrphanIsRemovedInSteps) {
  const std::uint64_t file = MakeScattered(kMany);
  tokens_ = TokenTable();
  ASSERT_EQ(Unlink(kRoot, "scattered"), 0);
  EXPECT_GE(Reap(), static_cast<int>(kMany / kReapExtents) - 1);
  EXPECT_LE(most_changes_, 6 * kReapExtents);
  EXPECT_LE(most_reads_, 4 * kReapExtents);
  EXPECT_EQ(ExtentCount(file), 0u);
}

TEST_F(StepsTest, AnAllocationThatCannotFitTakesNothing) {
  const std::uint64_t file = MakeScattered(10);
  const std::uint64_t free = allocator_->total_free_blocks();
  EXPECT_EQ(Fallocate(file, 0, free + 100), ENOSPC);
  EXPECT_EQ(allocator_->total_free_blocks(), free);
  ExpectSound();
}

TEST_F(StepsTest, BlocksForAFileFullOfHolesComeInShortReplies) {
  const std::uint64_t file = MakeScattered(100'000);
  v1::Request request;
  request.mutable_layout_get()->set_inode(file);
  request.mutable_layout_get()->set_mode(v1::TOKEN_EXCLUSIVE);
  request.mutable_layout_get()->set_allocate(true);
  request.mutable_layout_get()->set_length_bytes(200'000 * volume_.block_bytes);
  ASSERT_EQ(Do(LayoutGet, request), 0);
  EXPECT_EQ(steps_, 1);
  EXPECT_LE(most_changes_, 6 * kStepExtents);
  EXPECT_LE(most_reads_, 4 * kStepExtents);
  const v1::LayoutReply& layout = reply_.layout();
  EXPECT_GT(layout.length_blocks(), 100u);
  for (const v1::Extent& extent : layout.extents()) {
    EXPECT_NE(extent.state(), v1::EXTENT_HOLE) << "at " << extent.file_block();
  }
  ExpectSound();
}

TEST_F(StepsTest, ManyExtentsAreCommittedInSteps) {
  constexpr std::uint64_t kCount = 10 * kStepExtents;
  const std::uint64_t file = MakeScattered(kCount, false);
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(file);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    commit.add_written()->set_file_block(2 * i);
    commit.mutable_written(static_cast<int>(i))->set_length_blocks(1);
  }
  commit.set_size_bytes(2 * kCount * volume_.block_bytes + 5);
  commit.set_release_tail(true);
  // Blocks beyond the size are never written ones, also if it ends here.
  dies_after_ = 1;
  ASSERT_EQ(Do(LayoutCommit, request), 0);
  EXPECT_EQ(Attributes(file).size_bytes(), commit.size_bytes());
  dies_after_ = 0;
  ASSERT_EQ(Do(LayoutCommit, request), 0);
  ExpectSteps(10);
  for (const Extent& extent : Read(file, 2 * kCount)) {
    EXPECT_EQ(extent.state, ExtentState::kWritten);
  }
  ExpectSound();
}

TEST_F(StepsTest, OneRangeOverManyExtentsIsCommittedInSteps) {
  const std::uint64_t file = MakeScattered(10 * kStepExtents, false);
  ASSERT_EQ(Fallocate(file, 0, 20 * kStepExtents), 0);
  v1::Request request;
  v1::LayoutCommit& commit = *request.mutable_layout_commit();
  commit.set_inode(file);
  commit.add_written()->set_length_blocks(20 * kStepExtents);
  ASSERT_EQ(Do(LayoutCommit, request), 0);
  ExpectSteps(5);
  std::uint64_t blocks = 0;
  for (const Extent& extent : Read(file, 20 * kStepExtents)) {
    EXPECT_EQ(extent.state, ExtentState::kWritten);
    blocks += extent.length_blocks;
  }
  EXPECT_EQ(blocks, 20 * kStepExtents);
  ExpectSound();
}

// ---- a pool whose free blocks all lie alone
// ---------------------------------------------------------------------------------------

const std::uint64_t kFree = IsLongRun() ? 1 << 17 : 1 << 14;

class FragmentedTest : public StepsTest {
 protected:
  FragmentedTest() : StepsTest(2 * kFree / 16) {
    filler_ = MakeFile(kRoot, "filler");
    const absl::Status status = InContext(kMe, [&](OpContext& ctx) -> absl::Status {
      ExtentEdit edit(ctx, InodeNumber(filler_));
      if (absl::Status s = edit.Load(FileBlock(0), 2 * kFree).status(); !s.ok()) return s;
      AllocationRequest request;
      request.length_blocks = 2 * kFree;
      const auto runs = ctx.allocator.Allocate(ctx.txn, request);
      if (!runs.ok()) return runs.status();
      for (std::uint64_t i = 0; i < 2 * kFree; i += 2) {
        const mdc::Run& all = runs->front();
        absl::Status s = ctx.allocator.Free(ctx.txn, {all.pool, all.start + i, 1}, Sequence(1));
        if (s.ok()) s = edit.InsertUnwritten(FileBlock(i), {all.pool, all.start + i + 1, 1});
        if (!s.ok()) return s;
      }
      return edit.Store();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(allocator_->total_free_blocks(), kFree);
    file_ = MakeFile(kRoot, "file");
    tokens_.Grant(kMe, InodeNumber(file_), v1::TOKEN_EXCLUSIVE);
  }

  std::uint64_t filler_ = 0, file_ = 0;
};

TEST_F(FragmentedTest, OneHoleIsFilledInSteps) {
  ASSERT_EQ(Fallocate(file_, 0, kFree), 0);
  ExpectSteps(kFree / kStepExtents);
  EXPECT_EQ(Attributes(file_).allocated_bytes(), kFree * volume_.block_bytes);
  EXPECT_EQ(Fallocate(file_, 0, kFree + 1), ENOSPC);
  ExpectSound();
}

TEST_F(FragmentedTest, OneHoleIsZeroedInSteps) {
  ASSERT_EQ(Fallocate(file_, FALLOC_FL_ZERO_RANGE, 10 * kStepExtents), 0);
  ExpectSteps(10);
  EXPECT_EQ(Attributes(file_).allocated_bytes(), 10 * kStepExtents * volume_.block_bytes);
  ExpectSound();
}

TEST_F(FragmentedTest, BlocksForOneHoleComeInShortReplies) {
  v1::Request request;
  request.mutable_layout_get()->set_inode(file_);
  request.mutable_layout_get()->set_mode(v1::TOKEN_EXCLUSIVE);
  request.mutable_layout_get()->set_allocate(true);
  request.mutable_layout_get()->set_length_bytes(kFree * volume_.block_bytes);
  ASSERT_EQ(Do(LayoutGet, request), 0);
  EXPECT_EQ(steps_, 1);
  EXPECT_LE(most_changes_, 6 * kStepExtents);
  const v1::LayoutReply& layout = reply_.layout();
  EXPECT_GT(layout.length_blocks(), 100u);
  std::uint64_t next = 0;
  for (const v1::Extent& extent : layout.extents()) {
    EXPECT_NE(extent.state(), v1::EXTENT_HOLE) << "at " << extent.file_block();
    EXPECT_EQ(extent.file_block(), next);
    next += extent.length_blocks();
  }
  EXPECT_EQ(next, layout.length_blocks());
  // What follows is the next request's.
  request.mutable_layout_get()->set_offset_bytes(next * volume_.block_bytes);
  request.mutable_layout_get()->set_length_bytes(volume_.block_bytes);
  ASSERT_EQ(Do(LayoutGet, request), 0);
  EXPECT_GE(reply_.layout().length_blocks(), 1u);
  ExpectSound();
}

TEST_F(FragmentedTest, ACrashBetweenStepsIsFinishedByTheRepetition) {
  dies_after_ = 3;
  ASSERT_EQ(Fallocate(file_, 0, 10 * kStepExtents), 0);
  ASSERT_EQ(steps_, 3);
  ExpectSound();
  Restart();
  dies_after_ = 0;
  tokens_.Grant(kMe, InodeNumber(file_), v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(Fallocate(file_, 0, 10 * kStepExtents), 0);
  EXPECT_EQ(Attributes(file_).allocated_bytes(), 10 * kStepExtents * volume_.block_bytes);
  ExpectSound();
}

// ---- rename
// ---------------------------------------------------------------------------------------

class DeepTest : public OpFixture {
 protected:
  const std::uint64_t kDepth = IsLongRun() ? 1 << 19 : 1 << 16;

  DeepTest() {
    other_ = MakeDir(kRoot, "other");
    top_ = MakeDir(kRoot, "top");
    // Records alone: a chain from `top` down.
    bottom_ = top_;
    numbers_ = std::make_unique<InodeNumbers>(top_ + kDepth + 1);
    for (std::uint64_t made = 0; made < kDepth;) {
      WriteBatch batch;
      for (int i = 0; i < 10'000 && made < kDepth; ++i, ++made) {
        v1::InodeRecord record;
        record.set_mode(S_IFDIR | 0755);
        record.set_nlink(2);
        record.set_next_cookie(3);
        record.set_parent(bottom_);
        batch.Put(schema::InodeKey(InodeNumber(++bottom_)), record.SerializeAsString());
      }
      EXPECT_TRUE(store_.db().Apply(batch).ok());
    }
    std::string bytes;
    EXPECT_TRUE(store_.db().Get(schema::VolumeKey(), &bytes, Tier::kAll).ok());
    v1::VolumeRecord volume;
    EXPECT_TRUE(volume.ParseFromString(bytes));
    volume.set_inodes(volume.inodes() + kDepth);
    volume.set_next_inode(bottom_ + 1);
    WriteBatch batch;
    batch.Put(schema::VolumeKey(), volume.SerializeAsString());
    EXPECT_TRUE(store_.db().Apply(batch).ok());
  }
  void ExpectSteps() {
    EXPECT_GE(steps_, static_cast<int>(kDepth / kStepLevels));
    EXPECT_LE(most_reads_, kStepLevels + 100);
  }

  std::uint64_t other_ = 0, top_ = 0, bottom_ = 0;
};

TEST_F(DeepTest, TheLoopCheckTakesSteps) {
  EXPECT_EQ(Rename(kRoot, "top", bottom_, "below"), EINVAL);
  ExpectSteps();
  EXPECT_EQ(Rename(kRoot, "other", bottom_, "below"), 0);
  ExpectSteps();
  EXPECT_EQ(Lookup(bottom_, "below"), 0);
}

TEST_F(DeepTest, TheLoopCheckSeesConcurrentMoves) {
  // When half of the ancestors have been looked at, the deepest one moves below what moves.
  MakeDir(other_, "between");
  const std::uint64_t deepest = MakeDir(bottom_, "deepest");
  std::uint64_t step = 0;
  between_steps_ = [&] {
    if (++step != kDepth / kStepLevels / 2) return;
    EXPECT_EQ(Rename(bottom_, "deepest", other_, "deepest"), 0);
  };
  EXPECT_EQ(Rename(kRoot, "other", deepest, "below"), EINVAL);
}

TEST_F(DeepTest, AnEndlessLoopCheckIsGivenUp) {
  const std::uint64_t mover = MakeDir(kRoot, "mover");
  MakeDir(mover, "moved");
  bool there = false;
  between_steps_ = [&] {
    EXPECT_EQ(Rename(there ? kRoot : mover, "moved", there ? mover : kRoot, "moved"), 0);
    there = !there;
  };
  EXPECT_EQ(Rename(kRoot, "other", bottom_, "below"), EBUSY);
  EXPECT_LE(steps_, 200);
}

}  // namespace
}  // namespace reel::mdc
