#include "mdc/moves/compact.h"

#include "gtest/gtest.h"
#include "mdc/metadb/rocks_memory.h"
#include "mdc/moves/move_choice.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kSetBlocks = 1000;

// A pool of two stripe sets, of which every second run of ten blocks is in use.
class CompactTest : public testing::Test {
 protected:
  using Run = mdc::Run;  // not testing::Test::Run

  CompactTest() {
    Pool pool;
    pool.name = "data";
    pool.flags = Pool::kData;
    pool.breadth_blocks = 10;
    for (std::uint8_t i = 1; i <= 2; ++i) {
      LunEntry lun;
      lun.lun.bytes[0] = i;
      lun.name = std::string("lun") + static_cast<char>('0' + i);
      StripeSet set;
      set.rows = kSetBlocks / 10;
      set.luns = {lun};
      pool.sets.push_back(set);
    }
    volume_.block_bytes = 4096;
    volume_.pools = {pool};
    std::vector<Run> used;
    for (std::uint64_t at = 0; at < 2 * kSetBlocks; at += 20) used.push_back(At(at, 10));
    WriteBatch batch;
    Allocator::Format(volume_, used, batch);
    EXPECT_TRUE(store_.db().Apply(batch).ok());
    allocator_ = *Allocator::Load(store_.db(), volume_);
  }
  static Run At(std::uint64_t start, std::uint64_t blocks) {
    return {PoolId(0), PoolBlock(start), blocks};
  }
  static Extent FileAt(std::uint64_t start, std::uint64_t blocks) {
    Extent extent;
    extent.pool_block = PoolBlock(start);
    extent.length_blocks = blocks;
    return extent;
  }
  MoveChoice Choose(const v1::JobRecord& job, std::vector<Extent> extents) {
    const MoveLimits limits{.piece_blocks = 100, .window_blocks = 1000, .extents = 100};
    return *ChooseMove(job, {InodeNumber(7), "", std::move(extents)}, std::nullopt, limits, volume_,
                       *allocator_);
  }

  VolumeDescriptor volume_;
  MemoryStore store_;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(CompactTest, TheEndOfEachSetHasRoomBeforeIt) {
  v1::JobRecord job;
  FindScattered(*allocator_, std::nullopt, job);
  ASSERT_EQ(job.areas_size(), 2);
  for (int i = 0; i < 2; ++i) {
    const Run end = ToRun(job.areas(i));
    EXPECT_EQ(end.start.value() + end.length_blocks, (i + 1) * kSetBlocks);
    const auto front = FrontOf(*allocator_, end);
    ASSERT_TRUE(front.has_value());
    EXPECT_EQ(front->start.value(), i * kSetBlocks);
    EXPECT_EQ(front->length_blocks + end.length_blocks, kSetBlocks);
    const std::uint64_t used = end.length_blocks - allocator_->free_in(end);
    EXPECT_LE(used, allocator_->free_in(*front));
    EXPECT_GE(used, allocator_->free_in(*front) * 3 / 4);
  }
}

TEST_F(CompactTest, OfAnotherPoolNothingIsMoved) {
  v1::JobRecord job;
  FindScattered(*allocator_, PoolId(1), job);
  EXPECT_EQ(job.areas_size(), 0);
}

TEST_F(CompactTest, APieceGoesToAGapBeforeTheEndOrStays) {
  v1::JobRecord job;
  job.set_kind(v1::JOB_COMPACT);
  FindScattered(*allocator_, std::nullopt, job);
  EXPECT_TRUE(Choose(job, {FileAt(100, 10)}).piece.empty()) << "before the boundary";
  const MoveChoice moved = Choose(job, {FileAt(1900, 10)});
  ASSERT_EQ(moved.piece.size(), 1u);
  ASSERT_TRUE(moved.request.within.has_value());
  EXPECT_EQ(moved.request.within->start, PoolBlock(kSetBlocks)) << "of its own set";
  const MoveChoice kept = Choose(job, {FileAt(1900, 11)});
  EXPECT_TRUE(kept.piece.empty()) << "no gap holds it";
  EXPECT_EQ(kept.kept_blocks, 11u);
}

}  // namespace
}  // namespace reel::mdc
