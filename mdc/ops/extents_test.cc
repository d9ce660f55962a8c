#include "mdc/ops/extents.h"

#include <map>
#include <random>

#include "mdc/ops/layout.h"
#include "mdc/ops/open.h"
#include "mdc/ops/orphans.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kRegion = kExtentRegionBlocks;

class ExtentsTest : public OpFixture {
 protected:
  ExtentsTest() : file_(MakeFile(kRoot, "f")) {}

  // Loads the range, runs `change` on the edit, stores and commits.
  template <typename Change>
  absl::Status Edit(std::uint64_t start, std::uint64_t length, Change change) {
    return InContext(kMe, [&](OpContext& ctx) -> absl::Status {
      ExtentEdit edit(ctx, InodeNumber(file_));
      if (absl::Status s = edit.Load(FileBlock(start), length).status(); !s.ok()) return s;
      if (absl::Status s = change(ctx, edit); !s.ok()) return s;
      return edit.Store();
    });
  }
  absl::Status Insert(std::uint64_t start, std::uint64_t length) {
    return Edit(start, length, [&](OpContext& ctx, ExtentEdit& edit) -> absl::Status {
      AllocationRequest request;
      request.length_blocks = length;
      if (const auto before = edit.Before(FileBlock(start))) {
        request.has_goal = true;
        request.goal_pool = before->pool;
        request.goal_block = before->pool_block + before->length_blocks;
      }
      const auto runs = ctx.allocator.Allocate(ctx.txn, request);
      if (!runs.ok()) return runs.status();
      FileBlock next(start);
      for (const auto& run : *runs) {
        if (absl::Status s = edit.InsertUnwritten(next, run); !s.ok()) return s;
        next = next + run.length_blocks;
      }
      return absl::OkStatus();
    });
  }
  absl::Status Mark(std::uint64_t start, std::uint64_t length) {
    return Edit(start, length, [&](OpContext&, ExtentEdit& edit) {
      return edit.MarkWritten(FileBlock(start), length);
    });
  }
  absl::Status Zero(std::uint64_t start, std::uint64_t length) {
    return Edit(start, length, [&](OpContext&, ExtentEdit& edit) {
      edit.MarkUnwritten(FileBlock(start), length);
      return absl::OkStatus();
    });
  }
  absl::Status Punch(std::uint64_t start, std::uint64_t length) {
    return Edit(start, length, [&](OpContext&, ExtentEdit& edit) {
      return edit.Remove(FileBlock(start), length);
    });
  }
  std::vector<Extent> Read(std::uint64_t start, std::uint64_t length, std::size_t limit = 1 << 20) {
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    auto extents = ReadExtents(txn, InodeNumber(file_), FileBlock(start), length, limit);
    EXPECT_TRUE(extents.ok()) << extents.status();
    return extents.ok() ? *extents : std::vector<Extent>();
  }
  std::uint64_t AllocatedBlocks() { return Attributes(file_).allocated_bytes() / kBlock; }
  std::uint64_t UsedBlocks() {
    return allocator_->total_blocks() - allocator_->total_free_blocks();
  }

  const std::uint64_t file_;
};

TEST_F(ExtentsTest, NeighboursMergeAndSplit) {
  ASSERT_TRUE(Insert(0, 10).ok());
  ASSERT_TRUE(Insert(10, 10).ok());
  EXPECT_EQ(ExtentCount(file_), 1u);
  EXPECT_EQ(AllocatedBlocks(), 20u);
  ASSERT_TRUE(Mark(5, 5).ok());
  EXPECT_EQ(ExtentCount(file_), 3u);
  const auto extents = Read(0, 100);
  ASSERT_EQ(extents.size(), 3u);
  EXPECT_EQ(extents[1].file_block, FileBlock(5));
  EXPECT_EQ(extents[1].state, ExtentState::kWritten);
  EXPECT_EQ(extents[1].pool_block, extents[0].pool_block + 5);
  EXPECT_EQ(Read(7, 1).at(0).pool_block, extents[0].pool_block + 7);
  EXPECT_EQ(Read(0, 100, 2).size(), 2u);
  ASSERT_TRUE(Mark(0, 20).ok());
  EXPECT_EQ(ExtentCount(file_), 1u);
  ASSERT_TRUE(Punch(8, 4).ok());
  EXPECT_EQ(ExtentCount(file_), 2u);
  EXPECT_EQ(UsedBlocks(), 16u);
  EXPECT_TRUE(Read(8, 4).empty());
  ExpectSound();
}

TEST_F(ExtentsTest, NoneCrossesARegion) {
  ASSERT_TRUE(Insert(kRegion - 4, kRegion + 8).ok());
  EXPECT_EQ(ExtentCount(file_), 3u);
  EXPECT_EQ(Read(0, 3 * kRegion).size(), 1u);  // joined again for the reader
  EXPECT_EQ(Read(kRegion - 1, 2).at(0).length_blocks, 2u);
  ExpectSound();
}

TEST_F(ExtentsTest, OnlyAllocatedBlocksBecomeWritten) {
  ASSERT_TRUE(Insert(0, 4).ok());
  ASSERT_TRUE(Insert(5, 4).ok());
  EXPECT_EQ(ErrnoOf(Mark(3, 3)), ESTALE);
  EXPECT_EQ(ErrnoOf(Mark(8, 2)), ESTALE);
  for (const Extent& extent : Read(0, 10)) EXPECT_EQ(extent.state, ExtentState::kUnwritten);
  EXPECT_FALSE(Insert(3, 1).ok());
  EXPECT_EQ(UsedBlocks(), 8u);
}

// Random edits against an array of blocks.
TEST_F(ExtentsTest, MatchesAModel) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::map<std::uint64_t, bool> model;  // block → written
    const std::uint64_t base = kRegion - 32;
    ASSERT_TRUE(Punch(0, 2 * kRegion).ok());
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t start = base + random() % 64, length = 1 + random() % 12;
      const auto range = [&](auto visit) {
        for (std::uint64_t b = start; b < start + length; ++b) visit(b);
      };
      bool any = false, all = true;
      range([&](std::uint64_t b) { (model.contains(b) ? any : all) = model.contains(b); });
      switch (random() % 4) {
        case 0:
          EXPECT_EQ(Insert(start, length).ok(), !any);
          if (!any) range([&](std::uint64_t b) { model[b] = false; });
          break;
        case 1:
          EXPECT_EQ(ErrnoOf(Mark(start, length)), all ? 0 : ESTALE);
          if (all) range([&](std::uint64_t b) { model[b] = true; });
          break;
        case 2:
          EXPECT_TRUE(Punch(start, length).ok());
          range([&](std::uint64_t b) { model.erase(b); });
          break;
        default:
          EXPECT_TRUE(Zero(start, length).ok());
          range([&](std::uint64_t b) {
            if (model.contains(b)) model[b] = false;
          });
      }
      std::map<std::uint64_t, bool> got;
      for (const Extent& extent : Read(0, 2 * kRegion)) {
        for (std::uint64_t i = 0; i < extent.length_blocks; ++i) {
          got[extent.file_block.value() + i] = extent.state == ExtentState::kWritten;
        }
      }
      ASSERT_EQ(got, model) << "step " << step;
      ASSERT_EQ(UsedBlocks(), model.size());
    }
    ExpectSound();
  }
}

TEST_F(ExtentsTest, DamageIsReportedNotFollowed) {
  ASSERT_TRUE(Insert(0, 4).ok());
  WriteBatch batch;
  batch.Put(
      std::string("E") + std::string(7, '\0') + static_cast<char>(file_) + std::string(8, '\0'),
      "\xff");
  ASSERT_TRUE(store_.db().Apply(batch).ok());
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  EXPECT_EQ(ReadExtents(txn, InodeNumber(file_), FileBlock(0), 1, 1).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Mark(0, 1).code(), absl::StatusCode::kDataLoss);
}

// ---- truncation and orphans
// ----------------------------------------------------------------------

TEST_F(ExtentsTest, TruncationFreesTheBlocksBeyond) {
  ASSERT_TRUE(Insert(0, 10).ok());
  EXPECT_EQ(Truncate(file_, 10 * kBlock), 0);
  EXPECT_EQ(Truncate(file_, 4 * kBlock + 1), 0);
  EXPECT_EQ(AllocatedBlocks(), 5u);
  EXPECT_EQ(Truncate(file_, 8 * kBlock), 0);
  EXPECT_TRUE(Read(5, 3).empty());
  EXPECT_EQ(Truncate(file_, 0), 0);
  EXPECT_EQ(UsedBlocks(), 0u);
  ExpectSound();
}

TEST_F(ExtentsTest, LargeTruncationGoesInSteps) {
  Scatter(file_, 3500);
  EXPECT_EQ(Truncate(file_, 200 * kBlock), 0);
  EXPECT_LE(last_batch_changes_, 2200u);  // extents and the free space that they become
  EXPECT_EQ(Read(0, 8000).size(), 100u);
  EXPECT_EQ(Truncate(file_, 8000 * kBlock), 0);  // grown again: nothing old comes back
  EXPECT_EQ(Read(0, 8000).size(), 100u);
  EXPECT_EQ(Truncate(file_, 100 * kBlock), 0);
  EXPECT_EQ(Read(0, 8000).size(), 50u);
  ExpectSound();
  EXPECT_GE(Reap(), 3);
  EXPECT_EQ(AllocatedBlocks(), 50u);
  EXPECT_EQ(UsedBlocks(), 50u);
  ExpectSound();
}

TEST_F(ExtentsTest, AnEditEndsThePendingTruncation) {
  Scatter(file_, kReapExtents + kStepExtents);
  EXPECT_EQ(Truncate(file_, 0), 0);
  EXPECT_GT(UsedBlocks(), 0u);
  ASSERT_TRUE(Insert(4000, 3).ok());
  EXPECT_EQ(AllocatedBlocks(), 3u);
  EXPECT_EQ(UsedBlocks(), 3u);
  EXPECT_EQ(Reap(), 1);  // finds nothing left to do
  EXPECT_EQ(AllocatedBlocks(), 3u);
  ExpectSound();
}

TEST_F(ExtentsTest, OpenFilesOutliveTheirNames) {
  ASSERT_TRUE(Insert(0, 10).ok());
  opens_.Open(kOther, InodeNumber(file_));
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  EXPECT_EQ(Reap(), 1);
  EXPECT_EQ(Attributes(file_).nlink(), 0u);
  EXPECT_EQ(Read(0, 10).size(), 1u);
  ExpectSound();
  EXPECT_TRUE(opens_.Close(kOther, InodeNumber(file_)));
  Reap();
  EXPECT_EQ(GetAttr(file_), ESTALE);
  EXPECT_EQ(UsedBlocks(), 0u);
  ExpectSound();
}

// A holder may have writes to the blocks under way, also the one that unlinks.
TEST_F(ExtentsTest, BlocksUnderATokenAreNotFreed) {
  ASSERT_TRUE(Insert(0, 10).ok());
  tokens_.Grant(kMe, InodeNumber(file_), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  EXPECT_EQ(UsedBlocks(), 10u);
  Reap();
  EXPECT_EQ(blocked_, InodeNumber(file_));
  EXPECT_EQ(UsedBlocks(), 10u);
  tokens_.Return(kMe, InodeNumber(file_), v1::TOKEN_NONE);
  Reap();
  EXPECT_EQ(UsedBlocks(), 0u);
  ExpectSound();
}

// A host whose session was evicted opens anew what it had open, is refused, and claims it of the
// next controller: the file would have holes by then.
TEST_F(ExtentsTest, APartlyFreedFileCannotBeReclaimed) {
  Scatter(file_, 3500);
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  Restart();
  opens_.Open(kOther, InodeNumber(file_));
  v1::Request request;
  request.mutable_open()->set_inode(file_);
  EXPECT_EQ(Do(Open, request, kOther), ESTALE);
  request.mutable_layout_get()->set_inode(file_);
  request.mutable_layout_get()->set_mode(v1::TOKEN_SHARED);
  request.mutable_layout_get()->set_length_bytes(1);
  EXPECT_EQ(Do(LayoutGet, request, kOther), ESTALE);
  EXPECT_EQ(Link(file_, kRoot, "g"), ENOENT);
  Reap();
  EXPECT_EQ(GetAttr(file_), ESTALE);
  EXPECT_EQ(UsedBlocks(), 0u);
  ExpectSound();
}

TEST_F(ExtentsTest, LargeRemovalSurvivesARestart) {
  Scatter(file_, 3500);
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  EXPECT_LE(last_batch_changes_, 2200u);
  EXPECT_EQ(Lookup(kRoot, "f"), ENOENT);
  Restart();
  ExpectSound();
  EXPECT_EQ(Reap(), 3);
  EXPECT_EQ(GetAttr(file_), ESTALE);
  EXPECT_EQ(UsedBlocks(), 0u);
  ExpectSound();
}

}  // namespace
}  // namespace reel::mdc
