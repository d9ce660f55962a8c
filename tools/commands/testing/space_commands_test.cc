// What the commands about space ask of the controller, and show: scrub, free.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/commands/command_table.h"
#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using testing::HasSubstr;

class SpaceCommandsTest : public testing::Test {
 protected:
  SpaceCommandsTest() {
    api_.AddVolume("studio");
    api_.Answer("Volumes", api_.volumes);
    api_.Answer("Jobs", jobs_);
  }
  absl::StatusOr<std::string> Run(const std::string& line) {
    return RunAdminCommand(context_, *SplitWords(line));
  }
  std::string Text(const std::string& line) {
    const auto text = Run(line);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }
  v1::ScrubRecord& AddScrub(std::uint64_t job, v1::JobState state) {
    v1::JobsReply::Job& added = *jobs_.add_jobs();
    added.set_job(job);
    added.mutable_record()->set_kind(v1::JOB_SCRUB);
    added.mutable_record()->set_state(state);
    return *added.mutable_record()->mutable_scrub();
  }

  FakeApi api_;
  v1::JobsReply jobs_;
  AdminContext context_{api_, "studio"};
};

TEST_F(SpaceCommandsTest, AScrubBeginsWithARate) {
  EXPECT_THAT(Text("scrub"), HasSubstr("never scrubbed"));
  ASSERT_TRUE(Run("scrub start rate 5000").ok());
  EXPECT_EQ(api_.Asked<v1::StartJobRequest>().kind(), v1::JOB_SCRUB);
  EXPECT_EQ(api_.Asked<v1::StartJobRequest>().rate_records(), 5'000u);
  ASSERT_TRUE(Run("scrub start").ok());
  EXPECT_EQ(api_.Asked<v1::StartJobRequest>().rate_records(), 0u);
  EXPECT_TRUE(absl::IsInvalidArgument(Run("scrub start rate soon").status()));
}

TEST_F(SpaceCommandsTest, TheScrubThatRunsIsChanged) {
  EXPECT_THAT(Run("scrub pause").status().message(), HasSubstr("is not being scrubbed"));
  AddScrub(3, v1::JOB_DONE);
  v1::ScrubRecord& scrub = AddScrub(7, v1::JOB_RUNNING);
  scrub.set_looked_records(50);
  scrub.set_total_records(200);
  ASSERT_TRUE(Run("scrub pause").ok());
  EXPECT_EQ(api_.Asked<v1::ChangeJobRequest>().job(), 7u);
  EXPECT_EQ(api_.Asked<v1::ChangeJobRequest>().state(), v1::JOB_PAUSED);
  ASSERT_TRUE(Run("scrub cancel").ok());
  EXPECT_EQ(api_.Asked<v1::ChangeJobRequest>().state(), v1::JOB_CANCELLED);
  EXPECT_THAT(Text("scrub"), HasSubstr("running, 50 of about 200 records (25 %)"));
  EXPECT_THAT(Text("jobs"), HasSubstr("50 records"));
}

TEST_F(SpaceCommandsTest, WhatAScrubFoundIsListedWithItsCure) {
  v1::ScrubRecord& scrub = AddScrub(3, v1::JOB_DONE);
  scrub.set_problems(3);
  scrub.add_lines("inode 12: no entry names it, its link count is 1");
  scrub.add_lines("pool data, blocks 16 to 31: neither free nor in a file");
  const std::string text = Text("scrub");
  EXPECT_THAT(text, HasSubstr("inode 12: no entry names it"));
  EXPECT_THAT(text, HasSubstr("and 1 more"));
  EXPECT_THAT(text, HasSubstr("fsck.reelfs --repair studio"));
  EXPECT_THAT(Text("jobs"), HasSubstr("3 found"));
}

TEST_F(SpaceCommandsTest, FreeSaysWhoseSpaceItIsAndWhatHoldsTheRest) {
  v1::FreeReply reply;
  v1::FreeReply::Use& use = *reply.add_uses();
  use.set_total_bytes(std::uint64_t{4} << 40);
  use.set_free_bytes(std::uint64_t{1} << 40);
  use.add_pools("data");
  v1::FreeReply::Pool& pool = *reply.add_pools();
  pool.set_name("data");
  pool.set_largest_run_bytes(std::uint64_t{3} << 30);
  v1::FreeReply::RunClass& runs = *pool.add_classes();
  runs.set_from_bytes(std::uint64_t{2} << 30);
  runs.set_runs(17);
  runs.set_bytes(std::uint64_t{40} << 30);
  reply.set_open_files(2);
  reply.set_open_bytes(5 << 20);
  api_.Answer("Free", reply);
  const std::string text = Text("free");
  EXPECT_THAT(text, HasSubstr("(none)"));
  EXPECT_THAT(text, HasSubstr("25 %"));
  EXPECT_THAT(text, HasSubstr("3 GiB"));
  EXPECT_THAT(text, HasSubstr("17"));
  EXPECT_THAT(text, HasSubstr("removed and open: 5 MiB (2 files)"));
  EXPECT_THAT(text, HasSubstr("\"scrub start\" counts them"));
  reply.mutable_files()->set_files(100);
  reply.mutable_files()->set_pieces(130);
  for (const std::uint64_t files : {90u, 10u, 0u, 0u, 0u, 0u}) {
    reply.mutable_files()->add_files_by_pieces(files);
  }
  EXPECT_THAT(Text("free"), HasSubstr("130 in 100 files (files of 1: 90, of 2-3: 10)"));
}

}  // namespace
}  // namespace reel::tools
