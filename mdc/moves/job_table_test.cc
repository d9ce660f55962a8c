#include "mdc/moves/job_table.h"

#include <gtest/gtest.h>

#include "mdc/metadb/rocks_memory.h"

namespace reel::mdc {
namespace {

class JobTableTest : public testing::Test {
 protected:
  JobId Add() {
    const auto job = table_.Add(v1::JobRecord(), JobId(0), batch_);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(JobId(0));
  }
  absl::Status Change(JobId job, v1::JobState state) {
    return table_.Change(job, state, v1::Time(), batch_);
  }
  void End(JobId job, v1::JobState state, std::string problem = "") {
    table_.End(job, state, std::move(problem), v1::Time(), batch_);
  }
  // What the next controller knows.
  JobTable Stored() {
    EXPECT_TRUE(store_.db().Apply(batch_).ok());
    batch_ = {};
    JobTable stored;
    EXPECT_TRUE(stored.Load(store_.db()).ok());
    return stored;
  }

  MemoryStore store_;
  WriteBatch batch_;
  JobTable table_;
};

TEST_F(JobTableTest, TheFirstJobThatIsToRunRuns) {
  const JobId first = Add(), second = Add();
  EXPECT_EQ(table_.Current(), first);
  EXPECT_TRUE(Change(first, v1::JOB_PAUSED).ok());
  EXPECT_EQ(table_.Current(), second);
  End(second, v1::JOB_DONE);
  EXPECT_EQ(table_.Current(), std::nullopt);
  EXPECT_EQ(Stored().Find(first)->state(), v1::JOB_PAUSED);
  EXPECT_EQ(Stored().Find(second)->state(), v1::JOB_DONE);
}

// What it has passed over may have room by now.
TEST_F(JobTableTest, AJobThatHasFailedBeginsAnew) {
  const JobId job = Add();
  v1::JobRecord& record = *table_.Find(job);
  record.set_next_inode(900);
  record.set_next_block(7);
  record.set_looked_blocks(50);
  record.set_kept_blocks(20);
  record.set_moved_blocks(30);
  End(job, v1::JOB_FAILED, "20 blocks have no room in other pools");
  ASSERT_TRUE(Change(job, v1::JOB_RUNNING).ok());
  JobTable stored = Stored();
  EXPECT_EQ(stored.Current(), job);
  EXPECT_EQ(stored.Find(job)->next_inode(), 0u);
  EXPECT_EQ(stored.Find(job)->next_block(), 0u);
  EXPECT_EQ(stored.Find(job)->kept_blocks(), 0u);
  EXPECT_EQ(stored.Find(job)->moved_blocks(), 30u);
  EXPECT_EQ(stored.Find(job)->problem(), "");
}

TEST_F(JobTableTest, APausedJobGoesOnWhereItWas) {
  const JobId job = Add();
  table_.Find(job)->set_next_inode(900);
  ASSERT_TRUE(Change(job, v1::JOB_PAUSED).ok());
  ASSERT_TRUE(Change(job, v1::JOB_RUNNING).ok());
  EXPECT_EQ(Stored().Find(job)->next_inode(), 900u);
}

TEST_F(JobTableTest, TheLastJobsThatAreOverStay) {
  for (std::size_t i = 0; i < JobTable::kKeptJobs + 10; ++i) End(Add(), v1::JOB_DONE);
  const JobId last = Add();
  EXPECT_EQ(table_.all().size(), JobTable::kKeptJobs);
  EXPECT_EQ(Stored().all().size(), JobTable::kKeptJobs);
  EXPECT_EQ(table_.all().rbegin()->first, last);
}

TEST_F(JobTableTest, TooManyJobsAreRefused) {
  for (std::size_t i = 0; i < JobTable::kMaxJobs; ++i) Add();
  EXPECT_EQ(table_.Add(v1::JobRecord(), JobId(0), batch_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(JobTableTest, AScrubStandsBesideTheOthers) {
  v1::JobRecord record;
  record.set_kind(v1::JOB_SCRUB);
  const auto scrub = table_.Add(record, JobId(0), batch_);
  ASSERT_TRUE(scrub.ok());
  EXPECT_EQ(table_.Current(), std::nullopt) << "it moves nothing";
  EXPECT_EQ(table_.Scrub(), *scrub);
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Add(record, JobId(0), batch_).status()));
  record.set_kind(v1::JOB_DEFRAGMENT);
  const auto moves = table_.Add(record, JobId(0), batch_);
  ASSERT_TRUE(moves.ok());
  EXPECT_EQ(table_.Current(), *moves);
  table_.End(*scrub, v1::JOB_DONE, "", {}, batch_);
  EXPECT_EQ(table_.Scrub(), std::nullopt);
  // What it has found stays, however many others come and go.
  for (std::size_t i = 0; i < 2 * JobTable::kKeptJobs; ++i) {
    const auto more = table_.Add(record, JobId(0), batch_);
    ASSERT_TRUE(more.ok()) << more.status();
    table_.End(*more, v1::JOB_DONE, "", {}, batch_);
  }
  EXPECT_EQ(table_.LastScrub(), table_.Find(*scrub));
  record.set_kind(v1::JOB_SCRUB);
  ASSERT_TRUE(table_.Add(record, JobId(0), batch_).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Change(*scrub, v1::JOB_RUNNING, {}, batch_)));
}

}  // namespace
}  // namespace reel::mdc
