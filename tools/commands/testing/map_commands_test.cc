// What the commands that change a volume's map ask of the controller.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/commands/command_table.h"
#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class MapCommandsTest : public testing::Test {
 protected:
  MapCommandsTest() {
    api_.AddVolume("studio");
    api_.Answer("Volumes", api_.volumes);
    changed_.set_map_generation(4);
    changed_.set_added_bytes(std::uint64_t{1} << 40);
    api_.Answer("ChangeMap", changed_);
    closed_.add_luns("data1");
    api_.Answer("CloseSpace", closed_);
  }
  absl::StatusOr<std::string> Run(const std::string& line) {
    return RunAdminCommand(context_, *SplitWords(line));
  }
  v1::ChangeMapRequest Asked() { return api_.Asked<v1::ChangeMapRequest>(); }

  FakeApi api_;
  v1::ChangeMapReply changed_;
  v1::CloseSpaceReply closed_;
  AdminContext context_{api_, "studio"};
};

TEST_F(MapCommandsTest, LunAdd) {
  const auto text = Run("lun add data /dev/a iscsi://h/iqn.x=y/1");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(Asked().volume(), "studio");
  EXPECT_EQ(Asked().add_luns().pool(), "data");
  EXPECT_THAT(Asked().add_luns().luns(), ElementsAre("/dev/a", "iscsi://h/iqn.x=y/1"));
  EXPECT_THAT(*text, HasSubstr("map generation 4"));
  EXPECT_THAT(*text, HasSubstr("1 TiB more"));
  EXPECT_TRUE(absl::IsInvalidArgument(Run("lun add data").status()));
}

TEST_F(MapCommandsTest, WhatIsOverwrittenIsAskedAboutFirst) {
  std::string question;
  context_.confirm = [&](const std::string& text) {
    question = text;
    return false;
  };
  EXPECT_FALSE(Run("lun add data /dev/a force=/dev/a").ok());
  EXPECT_THAT(question, HasSubstr("What /dev/a holds is lost"));
  EXPECT_FALSE(Asked().has_add_luns());
  context_.confirm = nullptr;
  EXPECT_TRUE(Run("lun add data /dev/a force=/dev/a").ok());
  EXPECT_THAT(Asked().force(), ElementsAre("/dev/a"));
}

TEST_F(MapCommandsTest, LunGrow) {
  ASSERT_TRUE(Run("lun grow data").ok());
  EXPECT_EQ(Asked().grow().pool(), "data");
}

TEST_F(MapCommandsTest, RemovingBeginsAJob) {
  v1::JobsReply jobs;
  jobs.add_jobs()->set_job(7);
  jobs.mutable_jobs(0)->mutable_record()->set_kind(v1::JOB_RESTRIPE);
  jobs.mutable_jobs(0)->mutable_record()->set_subject("pool data, without LUN data3");
  api_.Answer("StartJob", jobs);
  const auto text = Run("lun remove data3 rate 100M");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("without LUN data3"));
  const auto asked = api_.Asked<v1::StartJobRequest>();
  EXPECT_EQ(asked.kind(), v1::JOB_RESTRIPE);
  EXPECT_TRUE(asked.remove());
  EXPECT_EQ(asked.lun(), "data3");
  EXPECT_EQ(asked.rate_bytes(), 100U << 20);
  EXPECT_TRUE(absl::IsInvalidArgument(Run("lun remove data3 rate none").status()));
  ASSERT_TRUE(Run("pool remove old").ok());
  EXPECT_EQ(api_.Asked<v1::StartJobRequest>().pool(), "old");
}

TEST_F(MapCommandsTest, LunReplaceBeginsAJob) {
  v1::JobsReply jobs;
  jobs.add_jobs()->set_job(8);
  api_.Answer("StartJob", jobs);
  ASSERT_TRUE(Run("lun replace data3 /dev/new force=/dev/new rate 1M").ok());
  const auto asked = api_.Asked<v1::StartJobRequest>();
  EXPECT_EQ(asked.lun(), "data3");
  EXPECT_EQ(asked.with(), "/dev/new");
  EXPECT_THAT(asked.force(), ElementsAre("/dev/new"));
  EXPECT_EQ(asked.rate_bytes(), 1U << 20);
  EXPECT_TRUE(absl::IsInvalidArgument(Run("lun replace data3 /dev/a /dev/b").status()));
}

TEST_F(MapCommandsTest, PoolAdd) {
  ASSERT_TRUE(Run("pool add archive /dev/a /dev/b holds=both breadth=256K affinities=a,b").ok());
  const v1::ChangeMapRequest::AddPool pool = Asked().add_pool();
  EXPECT_EQ(pool.pool(), "archive");
  EXPECT_THAT(pool.luns(), ElementsAre("/dev/a", "/dev/b"));
  EXPECT_TRUE(pool.data());
  EXPECT_TRUE(pool.metadata());
  EXPECT_EQ(pool.breadth_bytes(), 256u << 10);
  EXPECT_THAT(pool.affinities(), ElementsAre("a", "b"));
  EXPECT_FALSE(pool.exclusive());
  EXPECT_THAT(Run("pool add archive /dev/a colour=red").status().message(), HasSubstr("colour"));
  EXPECT_THAT(Run("pool add archive /dev/a holds=gold").status().message(), HasSubstr("both"));
  EXPECT_THAT(Run("pool add archive /dev/a exclusive=maybe").status().message(),
              HasSubstr("yes or no"));
}

TEST_F(MapCommandsTest, PoolRenameAndSet) {
  changed_.set_added_bytes(0);
  const auto text = Run("pool rename data edit");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(Asked().rename().name(), "edit");
  EXPECT_EQ(*text, "Volume studio has map generation 4.\n");
  ASSERT_TRUE(Run("pool set edit affinities= exclusive=no").ok());
  EXPECT_TRUE(Asked().set_pool().sets_affinities());
  EXPECT_EQ(Asked().set_pool().affinities_size(), 0);
  EXPECT_TRUE(Asked().set_pool().has_exclusive());
  EXPECT_FALSE(Run("pool set edit fast").ok());
}

TEST_F(MapCommandsTest, DownAndUp) {
  ASSERT_TRUE(Run("pool down data").ok());
  EXPECT_EQ(api_.Asked<v1::CloseSpaceRequest>().pool(), "data");
  EXPECT_TRUE(api_.Asked<v1::CloseSpaceRequest>().closed());
  const auto text = Run("lun up data1");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(api_.Asked<v1::CloseSpaceRequest>().lun(), "data1");
  EXPECT_FALSE(api_.Asked<v1::CloseSpaceRequest>().closed());
  EXPECT_THAT(*text, HasSubstr("data1"));
}

}  // namespace
}  // namespace reel::tools
