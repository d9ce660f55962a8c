// Jobs: the blocks of files go elsewhere while clients have them.
#include "gmock/gmock.h"
#include "mdc/core/tests/space/jobs_fixture.h"
#include "mdc/moves/job_table.h"
#include "mdc/space/areas.h"

namespace reel::mdc {
namespace {

TEST_F(CoreJobsTest, AFragmentedFileBecomesOnePiece) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  const std::uint64_t free = harness_.FreeBlocks();
  const JobId job = Start(inode);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_EQ(Job(job).moved_blocks(), 16u * 40);
  const auto extents = ExtentsOf(inode);
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].length_blocks(), 16u * 40);
  EXPECT_EQ(extents[0].state(), v1::EXTENT_WRITTEN);
  EXPECT_EQ(harness_.FreeBlocks(), free);
  std::uint64_t copied = 0;
  for (const auto& order : harness_.copies_) {
    for (const auto& copy : order.copies) copied += copy.from.length_blocks;
  }
  EXPECT_EQ(copied, 16u * 40) << "each block once";
}

TEST_F(CoreJobsTest, WhatIsWholeStaysWhereItIs) {
  const std::uint64_t inode = a_.Create("whole", /*open=*/true);
  ASSERT_EQ(Fill(inode, 0, 5'000), 0);
  const auto before = ExtentsOf(inode);
  const JobId job = Start();
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_EQ(Job(job).moved_blocks(), 0u);
  EXPECT_TRUE(harness_.copies_.empty());
  EXPECT_EQ(ExtentsOf(inode).size(), before.size());
}

TEST_F(CoreJobsTest, BlocksThatHoldNothingAreNotCopied) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  const JobId job = Start(other_);  // nothing of it was committed
  a_.recalls_.clear();
  harness_.Tick();
  ASSERT_FALSE(a_.recalls_.empty());
  ASSERT_EQ(a_.Do(Client::ReturnOf(other_, v1::TOKEN_NONE), true), 0);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_TRUE(harness_.copies_.empty());
  ASSERT_EQ(ExtentsOf(other_).size(), 1u);
  EXPECT_EQ(ExtentsOf(other_)[0].state(), v1::EXTENT_UNWRITTEN);
  EXPECT_GT(ExtentsOf(inode).size(), 8u);
}

// The writer comes first: what was copied meanwhile is of no use.
TEST_F(CoreJobsTest, AWriterTakesTheTokenFromTheMover) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  const auto before = ExtentsOf(inode);
  const JobId job = StartHeld(inode);
  const std::uint64_t free = harness_.FreeBlocks();
  EXPECT_EQ(Fill(inode, 3, 1), 0) << "no program waits for a copy";
  harness_.core_->OnCopied(harness_.copies_[0].id, absl::OkStatus(), false);
  harness_.Run();
  EXPECT_EQ(ExtentsOf(inode).size(), before.size()) << "nothing was switched";
  EXPECT_EQ(harness_.FreeBlocks(), free);
  // It goes on once the writer is done.
  harness_.hold_copies_ = false;
  a_.recalls_.clear();
  Settle();
  ASSERT_FALSE(a_.recalls_.empty());
  ASSERT_EQ(GiveBack(inode), 0);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_EQ(ExtentsOf(inode).size(), 1u);
}

// However often a writer comes back: in the end it waits for a small piece.
TEST_F(CoreJobsTest, AFileThatIsAlwaysWrittenIsMovedAllTheSame) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  harness_.hold_copies_ = true;
  const JobId job = Start(inode);
  for (int round = 0; round < 100 && Job(job).state() == v1::JOB_RUNNING; ++round) {
    harness_.Pass(300, {&a_});
    if (!a_.recalls_.empty()) {
      ASSERT_EQ(GiveBack(inode), 0);
      a_.recalls_.clear();
    }
    const std::uint64_t id = a_.SendIn(
        2, Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, (round % 640) * kBlock, kBlock));
    harness_.Run();
    if (!harness_.copies_.empty()) {
      harness_.core_->OnCopied(harness_.copies_.back().id, absl::OkStatus(), false);
      harness_.copies_.clear();
    }
    harness_.Run();
    ASSERT_TRUE(a_.Answered(id)) << "it waits for a copy at most";
  }
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_LT(ExtentsOf(inode).size(), 4u);
}

// A reader keeps what it has until all is copied, and is then told that it lies elsewhere.
TEST_F(CoreJobsTest, AReaderIsAskedOnlyForTheSwitch) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  Client b(harness_, 2);
  b.Register();
  ASSERT_EQ(b.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  harness_.hold_copies_ = true;
  Start(inode);
  harness_.Pass(1'000, {&a_, &b});
  ASSERT_EQ(harness_.copies_.size(), 1u);
  EXPECT_TRUE(b.recalls_.empty());
  const std::size_t before = ExtentsOf(inode).size();
  harness_.core_->OnCopied(harness_.copies_[0].id, absl::OkStatus(), false);
  harness_.Run();
  ASSERT_EQ(b.recalls_.size(), 1u);
  EXPECT_EQ(b.recalls_[0].mode(), v1::TOKEN_NONE);
  EXPECT_EQ(ExtentsOf(inode).size(), before) << "it may still be reading the old blocks";
  ASSERT_EQ(b.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_LT(ExtentsOf(inode).size(), before);
}

TEST_F(CoreJobsTest, ACopyThatFailsLeavesTheFileAndEndsTheJob) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  const std::size_t before = ExtentsOf(inode).size();
  const JobId job = StartHeld(inode);
  harness_.core_->OnCopied(harness_.copies_[0].id, absl::DataLossError("lun0: no path"), true);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_FAILED);
  EXPECT_EQ(Job(job).problem(), "lun0: no path");
  EXPECT_EQ(ExtentsOf(inode).size(), before);
  // Nobody else gets blocks that may yet be written.
  const mdc::Run lost = harness_.copies_[0].copies[0].to;
  const std::uint64_t late = a_.Create("late", /*open=*/true);
  for (std::uint64_t piece = 0; Fill(late, piece * 4'096, 4'096) == 0;) ++piece;
  for (std::uint64_t piece = 0; Fill(late, (1 << 20) + piece * 16, 16) == 0;) ++piece;
  for (const auto& extent : ExtentsOf(late)) {
    const std::uint64_t start = extent.places(0).pool_block();
    EXPECT_TRUE(start >= lost.start.value() + lost.length_blocks ||
                start + extent.length_blocks() <= lost.start.value());
  }
}

// As after each fence: it resets the LUNs.
TEST_F(CoreJobsTest, WhatALunHasAbortedIsCopiedAgain) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  const JobId job = StartHeld(inode);
  const std::uint64_t free = harness_.FreeBlocks();
  harness_.core_->OnCopied(harness_.copies_[0].id, absl::AbortedError("lun0 was reset"), false);
  harness_.hold_copies_ = false;
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_EQ(ExtentsOf(inode).size(), 1u);
  EXPECT_EQ(harness_.FreeBlocks(), free);
}

TEST_F(CoreJobsTest, AJobGoesOnInTheNextEpoch) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  const JobId job = StartHeld(inode);
  harness_.Restart();
  harness_.hold_copies_ = false;
  EXPECT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Reclaim(), 0);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_EQ(ExtentsOf(inode).size(), 1u);
}

TEST_F(CoreJobsTest, AFileThatIsRemovedMeanwhileIsGone) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  const JobId job = StartHeld(inode);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("fragmented"), true), 0);
  Settle();
  EXPECT_TRUE(ExtentsOf(inode).empty());
  harness_.core_->OnCopied(harness_.copies_[0].id, absl::OkStatus(), false);
  Settle();
  EXPECT_TRUE(ExtentsOf(inode).empty());
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
}

TEST_F(CoreJobsTest, AJobIsPausedResumedAndCancelled) {
  const std::uint64_t inode = MakeFragmented(16, 40);
  ASSERT_EQ(GiveBack(inode), 0);
  const JobId job = Start(inode);
  ASSERT_TRUE(harness_.core_->ChangeJob(job, v1::JOB_PAUSED).ok());
  Settle();
  EXPECT_TRUE(harness_.copies_.empty());
  EXPECT_FALSE(harness_.core_->ChangeJob(job, v1::JOB_PAUSED).ok());
  harness_.Restart();
  EXPECT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Reclaim(), 0);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_PAUSED) << "also in the next epoch";
  ASSERT_TRUE(harness_.core_->ChangeJob(job, v1::JOB_RUNNING).ok());
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE);
  EXPECT_EQ(harness_.core_->ChangeJob(job, v1::JOB_CANCELLED).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(harness_.core_->ChangeJob(JobId(77), v1::JOB_CANCELLED).status().code(),
            absl::StatusCode::kNotFound);
  const JobId second = Start();
  ASSERT_TRUE(harness_.core_->ChangeJob(second, v1::JOB_CANCELLED).ok());
  EXPECT_EQ(Job(second).state(), v1::JOB_CANCELLED);
}

// Its record is one of many that are over by then, and those are forgotten.
TEST_F(CoreJobsTest, AJobThatIsCancelledAsItsStepWaitsIsNotForgottenBeforeThat) {
  const std::uint64_t inode = MakeFragmented(16, 40);  // (this client holds it to write)
  const JobId job = Start(inode);
  harness_.Tick();
  ASSERT_TRUE(harness_.core_->ChangeJob(job, v1::JOB_CANCELLED).ok());
  for (std::size_t i = 0; i < 2 * JobTable::kKeptJobs; ++i) {
    ASSERT_TRUE(harness_.core_->ChangeJob(Start(inode), v1::JOB_CANCELLED).ok());
  }
  ASSERT_EQ(GiveBack(inode), 0);
  Settle();
  EXPECT_EQ(Job(job).state(), v1::JOB_CANCELLED);
}

TEST_F(CoreDrainTest, APoolIsEmptied) {
  std::vector<std::uint64_t> inodes;
  for (int i = 0; i < 6; ++i) {
    inodes.push_back(a_.Create(absl::StrCat("file", i), /*open=*/true));
    for (int piece = 4; piece-- > 0;) {  // with holes between
      ASSERT_EQ(Fill(inodes.back(), piece * 2'000, 600), 0);
      ASSERT_EQ(Commit(inodes.back(), piece * 2'000, 600), 0);
    }
    ASSERT_EQ(GiveBack(inodes.back()), 0);
  }
  EXPECT_EQ(Start(v1::JOB_DRAIN, "data").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Start(v1::JOB_DRAIN, "none").status().code(), absl::StatusCode::kNotFound);
  const auto job = Start(v1::JOB_DRAIN, "more");
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(5'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE);
  EXPECT_GT(Job(job->job).moved_blocks(), 0u);
  for (const std::uint64_t inode : inodes) {
    std::uint64_t blocks = 0;
    for (const auto& extent : ExtentsOf(inode)) {
      EXPECT_EQ(extent.places(0).pool(), 0u);
      EXPECT_EQ(extent.state(), v1::EXTENT_WRITTEN);
      blocks += extent.length_blocks();
    }
    EXPECT_EQ(blocks, 4u * 600);
  }
  EXPECT_EQ(Fill(a_.Create("later", /*open=*/true), 0, 600), 0);
  EXPECT_EQ(FreeIn(1), kMoreBlocks) << "nothing comes there any more";
}

TEST_F(CoreDrainTest, ALunIsEmptied) {
  const std::uint64_t inode = MakeFragmented(8, 100);
  ASSERT_EQ(GiveBack(inode), 0);
  ASSERT_EQ(GiveBack(other_), 0);
  EXPECT_EQ(Start(v1::JOB_DRAIN, "", "lun0").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Start(v1::JOB_DRAIN, "", "lun9").status().code(), absl::StatusCode::kNotFound);
  const auto job = Start(v1::JOB_DRAIN, "", "lun1");
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(5'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE);
  EXPECT_EQ(Job(job->job).subject(), "LUN lun1");
  for (const auto& extent : ExtentsOf(inode)) EXPECT_EQ(extent.places(0).pool(), 0u);
  EXPECT_EQ(FreeIn(1), kMoreBlocks);
}

// Files that got their affinity when they had blocks, and files of the plain pools in a pool that
// became exclusive.
TEST_F(CoreDrainTest, FilesAreMovedToThePoolOfTheirAffinity) {
  harness_.volume_.pools[1].affinities = {"fast"};
  harness_.volume_.pools[1].flags |= Pool::kExclusive;
  Restart();
  const std::uint64_t plain = a_.Create("plain", /*open=*/true);
  const std::uint64_t fast = a_.Create("fast", /*open=*/true);
  for (const std::uint64_t inode : {plain, fast}) {
    ASSERT_EQ(Fill(inode, 0, 5'000), 0);
    ASSERT_EQ(Commit(inode, 0, 5'000), 0);
    EXPECT_EQ(ExtentsOf(inode)[0].places(0).pool(), 0u);
    ASSERT_EQ(GiveBack(inode), 0);
  }
  v1::Request set;
  set.mutable_set_xattr()->set_inode(fast);
  set.mutable_set_xattr()->set_name("reelfs.affinity");
  set.mutable_set_xattr()->set_value("fast");
  ASSERT_EQ(a_.Do(set, true), 0);
  const auto job = Start(v1::JOB_PLACE, "");
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(10'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE);
  EXPECT_EQ(Job(job->job).moved_blocks(), 5'000u);
  std::uint64_t blocks = 0;
  for (const auto& extent : ExtentsOf(fast)) {
    EXPECT_EQ(extent.places(0).pool(), 1u);
    blocks += extent.length_blocks();
  }
  EXPECT_EQ(blocks, 5'000u);
  EXPECT_EQ(ExtentsOf(plain)[0].places(0).pool(), 0u);
}

TEST_F(CoreDrainTest, AFullSetGivesHalfToAnEmptyOne) {
  std::vector<std::uint64_t> inodes;
  for (int i = 0; i < 24; ++i) {
    inodes.push_back(a_.Create(absl::StrCat("file", i), /*open=*/true));
    ASSERT_EQ(Fill(inodes.back(), 0, 2'000), 0);
    ASSERT_EQ(Commit(inodes.back(), 0, 2'000), 0);
    ASSERT_EQ(GiveBack(inodes.back()), 0);
  }
  // The pool gets as much again.
  LunEntry lun = harness_.volume_.pools[1].sets[0].luns[0];
  lun.lun.bytes[0] = 3;
  lun.name = "lun2";
  harness_.volume_.pools[1].sets.push_back({{lun}, 1 << 12});
  Restart();
  const auto used = [&](std::size_t set) {
    const mdc::Run area = SetsOf(harness_.volume_, PoolId(1))[set];
    std::uint64_t blocks = 0;
    for (const std::uint64_t inode : inodes) {
      for (const auto& extent : ExtentsOf(inode)) {
        const auto& place = extent.places(0);
        const bool there = place.pool() == 1 && place.pool_block() >= area.start.value() &&
                           place.pool_block() < area.start.value() + area.length_blocks;
        if (there) blocks += extent.length_blocks();
      }
    }
    return blocks;
  };
  const std::uint64_t before = used(0);
  ASSERT_GT(before, 20'000u);
  ASSERT_EQ(used(1), 0u);
  const auto job = Start(v1::JOB_REBALANCE, "more");
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(60'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE);
  EXPECT_EQ(used(0) + used(1), before) << "no other pool takes part";
  EXPECT_NEAR(static_cast<double>(used(1)), static_cast<double>(before) / 2, before * 0.05);
  EXPECT_LT(Job(job->job).moved_blocks(), before * 0.6) << "and no more than that is moved";
  const std::uint64_t moved = Job(job->job).moved_blocks();
  const auto again = Start(v1::JOB_REBALANCE, "");
  ASSERT_TRUE(again.ok());
  harness_.Pass(10'000, {&a_});
  EXPECT_EQ(Job(again->job).state(), v1::JOB_DONE);
  EXPECT_LT(Job(again->job).moved_blocks(), moved / 10);
}

}  // namespace
}  // namespace reel::mdc
