// Scrubs as the core keeps them: one at a time, what was found, and the schedule.
#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class CoreScrubTest : public testing::Test {
 protected:
  std::vector<v1::JobRecord> Scrubs() {
    v1::JobsReply reply;
    harness_.core_->Describe(reply);
    std::vector<v1::JobRecord> scrubs;
    for (const auto& job : reply.jobs()) {
      if (job.record().kind() == v1::JOB_SCRUB) scrubs.push_back(job.record());
    }
    return scrubs;
  }
  absl::StatusOr<Core::ChangedJob> Start() {
    v1::StartJobRequest request;
    request.set_kind(v1::JOB_SCRUB);
    return harness_.core_->StartJob(request);
  }
  void End(std::uint64_t problems) {
    v1::ScrubRecord found;
    found.set_problems(problems);
    if (problems > 0) found.add_lines("inode 12: it is not well");
    const auto order = harness_.core_->BeginScrub();
    ASSERT_TRUE(order.has_value());
    harness_.core_->EndScrub(order->job, found);
    harness_.Run();
  }
  std::vector<std::string> Alarms() {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    EXPECT_EQ(show.alarms_size(), show.alarm_kinds_size()) << "each has a kind";
    return {show.alarms().begin(), show.alarms().end()};
  }

  CoreHarness harness_;
};

TEST_F(CoreScrubTest, WhatWasFoundIsAnAlarmUntilNothingIs) {
  EXPECT_FALSE(harness_.core_->BeginScrub().has_value());
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Start().status()));
  End(/*problems=*/3);
  EXPECT_THAT(Alarms(), Contains(HasSubstr("found 3 problems in the metadata, first: inode 12")));
  harness_.Restart();
  EXPECT_THAT(Alarms(), Contains(HasSubstr("fsck.reelfs --repair reel")));
  ASSERT_TRUE(Start().ok());
  EXPECT_THAT(Alarms(), Contains(HasSubstr("inode 12"))) << "nothing else is known yet";
  End(/*problems=*/0);
  EXPECT_THAT(Alarms(), IsEmpty());
}

TEST_F(CoreScrubTest, TheNextControllerBeginsItAnew) {
  ASSERT_TRUE(Start().ok());
  harness_.Run();
  const auto order = harness_.core_->BeginScrub();
  EXPECT_TRUE(harness_.core_->NoteScrub(order->job, 500, 1'000));
  harness_.Restart();
  EXPECT_TRUE(harness_.core_->TakeOutputs().scrub_changed);
  const auto again = harness_.core_->BeginScrub();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->job, order->job);
}

TEST_F(CoreScrubTest, OneThatIsPausedIsNotToRun) {
  const auto job = Start();
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(harness_.core_->ChangeJob(job->job, v1::JOB_PAUSED).ok());
  EXPECT_FALSE(harness_.core_->BeginScrub().has_value());
  EXPECT_FALSE(harness_.core_->NoteScrub(job->job, 1, 2));
  harness_.core_->EndScrub(job->job, v1::ScrubRecord());
  EXPECT_EQ(Scrubs()[0].state(), v1::JOB_PAUSED) << "what it says comes too late";
  ASSERT_TRUE(harness_.core_->ChangeJob(job->job, v1::JOB_RUNNING).ok());
  EXPECT_TRUE(harness_.core_->BeginScrub().has_value());
}

TEST_F(CoreScrubTest, TheScheduleBeginsOneWhenItIsTime) {
  harness_.options_.scrub_every_seconds = 3'600;
  harness_.Restart();
  harness_.Pass(200);
  ASSERT_EQ(Scrubs().size(), 1u) << "none was there before";
  End(/*problems=*/0);
  harness_.clock_.now_ms += 3'500'000;
  harness_.Pass(2'000);
  EXPECT_EQ(Scrubs().size(), 1u);
  harness_.Restart();
  harness_.Pass(2'000);
  EXPECT_EQ(Scrubs().size(), 1u) << "the next controller knows of the last one";
  harness_.clock_.now_ms += 100'000;
  harness_.Pass(2'000);
  EXPECT_EQ(Scrubs().size(), 2u);
  harness_.clock_.now_ms += 10'000'000;
  harness_.Pass(2'000);
  EXPECT_EQ(Scrubs().size(), 2u) << "that one has not ended";
}

}  // namespace
}  // namespace reel::mdc
