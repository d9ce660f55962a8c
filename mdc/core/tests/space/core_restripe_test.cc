// Restriping: a pool gets another stripe breadth, or loses a LUN, while clients have its files.
#include "mdc/core/tests/space/jobs_fixture.h"
#include "mdc/space/areas.h"

namespace reel::mdc {
namespace {

using testing::IsEmpty;

constexpr std::uint64_t kEach = 1'000;                       // blocks of a file
constexpr std::uint64_t kOldBreadth = 16, kNewBreadth = 64;  // blocks

class CoreRestripeTest : public CoreDrainTest {
 protected:
  CoreRestripeTest() {
    a_.features_ = v1::FEATURE_NEW_MAP;
    harness_.volume_.pools[1].affinities = {"more"};
    harness_.volume_.pools[1].flags |= Pool::kExclusive;
    Restart();
    v1::Request set;
    set.mutable_set_xattr()->set_inode(kRootInode.value());
    set.mutable_set_xattr()->set_name("reelfs.affinity");
    set.mutable_set_xattr()->set_value("more");
    EXPECT_EQ(a_.Do(set, true), 0);
  }
  // Files in the pool that take about that part of it.
  void Fill(double part) {
    for (int i = 0; i < 70 && kMoreBlocks - FreeIn(1) < part * kMoreBlocks; ++i) {
      const std::uint64_t inode = a_.Create(absl::StrCat("file", i), /*open=*/true);
      ASSERT_EQ(CoreJobsTest::Fill(inode, 0, kEach), 0);
      ASSERT_EQ(Commit(inode, 0, kEach), 0);
      ASSERT_EQ(GiveBack(inode), 0);
      inodes_.push_back(inode);
    }
  }
  absl::StatusOr<Core::ChangedJob> Restripe(std::uint64_t breadth_blocks = kNewBreadth) {
    v1::StartJobRequest request;
    request.set_kind(v1::JOB_RESTRIPE);
    request.set_pool("more");
    request.set_breadth_bytes(breadth_blocks * 4096);
    return harness_.core_->StartJob(request);
  }
  // A restripe whose first slice is empty, and whose map has been ordered.
  JobId Order() {
    Fill(0.2);
    harness_.hold_restripes_ = true;
    const auto job = Restripe();
    EXPECT_TRUE(job.ok()) << job.status();
    harness_.Pass(20'000, {&a_});
    EXPECT_EQ(harness_.restripes_.size(), 1u);
    return job.ok() ? job->job : JobId(0);
  }
  // The client takes each map that it is told of.
  void PassTaking(std::uint64_t ms) {
    for (std::uint64_t passed = 0; passed < ms; passed += 1'000) {
      harness_.Pass(1'000, {&a_});
      TakeMap();
    }
  }
  // Controllers follow each other until the job is over.
  void PassEpochs(JobId job) {
    for (int i = 0; i < 30 && Job(job).state() == v1::JOB_RUNNING; ++i) {
      harness_.Pass(400, {&a_});
      TakeMap();
      harness_.Restart();
      ASSERT_EQ(a_.Resume(), 0);
      ASSERT_EQ(a_.Reclaim(), 0);
    }
    PassTaking(60'000);
  }
  void TakeMap() {
    v1::Request request;
    request.mutable_map_taken()->set_generation(harness_.volume_.generation);
    EXPECT_EQ(a_.Do(request), 0);
    a_.map_generation_ = harness_.volume_.generation;
  }
  void ExpectRestriped() {
    const Pool& pool = harness_.volume_.pools[1];
    EXPECT_EQ(pool.breadth_blocks, kNewBreadth);
    for (const StripeSet& set : pool.sets) {
      EXPECT_TRUE(set.is_gap() || pool.BreadthOf(set) == kNewBreadth);
    }
    ExpectAllMoved(kMoreBlocks);
  }
  // No file lies where the pool was, which has so many blocks now.
  void ExpectAllMoved(std::uint64_t capacity_blocks) {
    EXPECT_EQ(harness_.volume_.pools[1].capacity_blocks(), capacity_blocks);
    std::uint64_t blocks = 0, written = 0;
    for (const std::uint64_t inode : inodes_) {
      for (const auto& extent : ExtentsOf(inode)) {
        EXPECT_EQ(extent.places(0).pool(), 1u);
        EXPECT_GE(extent.places(0).pool_block(), kMoreBlocks) << "an address that is gone";
        blocks += extent.length_blocks();
        if (extent.state() == v1::EXTENT_WRITTEN) written += extent.length_blocks();
      }
    }
    EXPECT_EQ(written, inodes_.size() * kEach);
    EXPECT_EQ(FreeIn(1), capacity_blocks - blocks) << "some are ahead of files";
    EXPECT_THAT(Problems(), IsEmpty());
  }
  std::vector<std::uint64_t> inodes_;
};

TEST_F(CoreRestripeTest, APoolGetsAnotherBreadthSliceBySlice) {
  Fill(0.7);
  const auto job = Restripe();
  ASSERT_TRUE(job.ok()) << job.status();
  PassTaking(60'000);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  EXPECT_GT(harness_.restripes_.size(), 2u) << "it had no room to do it at once";
  ExpectRestriped();
  EXPECT_EQ(Restripe().status().code(), absl::StatusCode::kFailedPrecondition) << "it has it";
}

TEST_F(CoreRestripeTest, ItGoesOnInTheNextEpoch) {
  Fill(0.6);
  const auto job = Restripe();
  ASSERT_TRUE(job.ok()) << job.status();
  PassEpochs(job->job);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  ExpectRestriped();
}

// The seat LUN has the new map, and the store does not know yet.
TEST_F(CoreRestripeTest, AMapThatTheLastControllerWroteIsTaken) {
  const JobId job = Order();
  ASSERT_EQ(harness_.restripes_.size(), 1u);
  const auto next = Restriped(harness_.volume_, harness_.restripes_[0]);
  ASSERT_TRUE(next.ok());
  harness_.volume_ = *next;
  EXPECT_THAT(Problems(), IsEmpty()) << "also for a check before anybody takes over";
  harness_.hold_restripes_ = false;
  harness_.Restart();
  a_.map_generation_ = harness_.volume_.generation;
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  PassTaking(60'000);
  EXPECT_EQ(Job(job).state(), v1::JOB_DONE) << Job(job).problem();
  ExpectRestriped();
}

TEST_F(CoreRestripeTest, NothingIsTouchedWhileTheMapChanges) {
  const JobId job = Order();
  ASSERT_EQ(harness_.restripes_.size(), 1u);
  const mdc::Run slice = harness_.restripes_[0].slice;
  EXPECT_EQ(harness_.core_->ChangeJob(job, v1::JOB_CANCELLED).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(harness_.core_->SetClosed({slice}, false).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(harness_.core_->BeginDump(Uuid()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::uint64_t later = a_.Create("later", /*open=*/true);
  ASSERT_EQ(CoreJobsTest::Fill(later, 0, 100), 0);
  const auto place = ExtentsOf(later).front().places(0);
  EXPECT_FALSE(place.pool() == 1 && place.pool_block() >= slice.start.value() &&
               place.pool_block() < slice.start.value() + slice.length_blocks);
}

// A crash would bring files back into the slice.
TEST_F(CoreRestripeTest, TheMapChangesWhenAllThatMovedIsDurable) {
  Fill(0.2);
  harness_.hold_syncs_ = true;
  const auto job = Restripe();
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(20'000, {});
  EXPECT_GT(Job(job->job).moved_blocks(), 0u);
  EXPECT_THAT(harness_.restripes_, IsEmpty());
  harness_.hold_syncs_ = false;
  harness_.Run();
  PassTaking(60'000);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  ExpectRestriped();
}

TEST_F(CoreRestripeTest, WhatIsCancelledIsOpenAgain) {
  Fill(0.7);
  harness_.hold_copies_ = true;
  const auto job = Restripe();
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(1'000, {&a_});
  EXPECT_FALSE(Job(job->job).areas().empty());
  ASSERT_TRUE(harness_.core_->ChangeJob(job->job, v1::JOB_CANCELLED).ok());
  harness_.Run();
  EXPECT_TRUE(Job(job->job).areas().empty());
  const std::uint64_t later = a_.Create("later", /*open=*/true);
  EXPECT_EQ(CoreJobsTest::Fill(later, 0, kMoreBlocks / 5), 0) << a_.last_.message();
  EXPECT_EQ(ExtentsOf(later).front().places(0).pool(), 1u);
}

TEST_F(CoreRestripeTest, APoolThatIsFullIsLeftAsItIs) {
  Fill(0.999);
  const auto job = Restripe(kOldBreadth * 1'024);
  ASSERT_TRUE(job.ok()) << job.status();
  PassTaking(5'000);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_FAILED);
  EXPECT_THAT(Job(job->job).problem(), testing::HasSubstr("too little is free in pool more"));
  EXPECT_EQ(harness_.volume_.pools[1].breadth_blocks, kOldBreadth);
}

// A pool of two LUNs, of which one is to go.
class CoreRemoveLunTest : public CoreRestripeTest {
 protected:
  CoreRemoveLunTest() {
    StripeSet& set = harness_.volume_.pools[1].sets[0];
    set.luns.push_back(set.luns[0]);
    set.luns[1].lun.bytes[0] = 3;
    set.luns[1].name = "lun2";
    set.rows /= 2;
    CoreDrainTest::Restart();
  }
  absl::StatusOr<Core::ChangedJob> Remove(const std::string& lun) {
    v1::StartJobRequest request;
    request.set_kind(v1::JOB_RESTRIPE);
    request.set_remove(true);
    request.set_lun(lun);
    return harness_.core_->StartJob(request);
  }
  void ExpectRemoved() {
    for (const StripeSet& set : harness_.volume_.pools[1].sets) {
      if (set.is_gap()) continue;
      ASSERT_EQ(set.luns.size(), 1u);
      EXPECT_EQ(set.luns[0].name, "lun1");
    }
    EXPECT_EQ(harness_.volume_.pools[1].breadth_blocks, kOldBreadth);
    ExpectAllMoved(kMoreBlocks / 2);
  }
};

TEST_F(CoreRemoveLunTest, WhatLiesThereGoesToTheOtherLunsSliceBySlice) {
  Fill(0.4);
  const auto job = Remove("lun2");
  ASSERT_TRUE(job.ok()) << job.status();
  PassTaking(60'000);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  EXPECT_GT(harness_.restripes_.size(), 1u) << "it had no room to do it at once";
  ExpectRemoved();
  EXPECT_EQ(Remove("lun2").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoreRemoveLunTest, ItGoesOnInTheNextEpoch) {
  Fill(0.3);
  const auto job = Remove("lun2");
  ASSERT_TRUE(job.ok()) << job.status();
  PassEpochs(job->job);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  ExpectRemoved();
}

TEST_F(CoreRestripeTest, APoolIsRemoved) {
  Fill(0.4);
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_RESTRIPE);
  request.set_remove(true);
  request.set_pool("more");
  const auto job = harness_.core_->StartJob(request);
  ASSERT_TRUE(job.ok()) << job.status();
  PassTaking(30'000);
  Restart();
  PassTaking(30'000);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  EXPECT_TRUE(harness_.volume_.pools[1].is_removed());
  for (const std::uint64_t inode : inodes_) {
    std::uint64_t blocks = 0;
    for (const auto& extent : ExtentsOf(inode)) {
      EXPECT_EQ(extent.places(0).pool(), 0u);
      blocks += extent.length_blocks();
    }
    EXPECT_GE(blocks, kEach);
  }
  EXPECT_EQ(FreeIn(1), 0u);
  EXPECT_THAT(Problems(), IsEmpty());
  const std::uint64_t later = a_.Create("later", /*open=*/true);
  EXPECT_EQ(CoreJobsTest::Fill(later, 0, kEach), 0) << "its affinity means nothing any more";
  EXPECT_TRUE(absl::IsNotFound(harness_.core_->StartJob(request).status()));
}

TEST_F(CoreRemoveLunTest, WhatTheOthersCannotHoldStaysWhereItIs) {
  Fill(0.7);
  const auto job = Remove("lun2");
  ASSERT_TRUE(job.ok()) << job.status();
  PassTaking(60'000);
  EXPECT_EQ(Job(job->job).state(), v1::JOB_FAILED);
  EXPECT_THAT(Job(job->job).problem(), testing::HasSubstr("too little is free in pool more"));
  EXPECT_THAT(Problems(), IsEmpty());
  for (const std::uint64_t inode : inodes_) EXPECT_FALSE(ExtentsOf(inode).empty());
}

}  // namespace
}  // namespace reel::mdc
