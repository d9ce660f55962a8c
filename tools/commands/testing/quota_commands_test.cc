// reeladm quota against made-up answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/commands/command_table.h"
#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class QuotaCommandsTest : public ::testing::Test {
 protected:
  QuotaCommandsTest() {
    api_.AddVolume("reel1");
    api_.Answer("Quotas", quotas_);
    quotas_.set_state("on");
    v1::QuotasReply::Grace& grace = *quotas_.add_grace();
    grace.set_kind("user");
    grace.set_space_seconds(7 * 24 * 3600);
    grace.set_files_seconds(3600);
  }
  std::string Run(const Words& words) {
    auto outcome = RunAdminCommand(context_, words);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or("");
  }
  int ExitCode(const Words& words) {
    return AdminExitCode(RunAdminCommand(context_, words).status());
  }

  FakeApi api_;
  v1::QuotasReply quotas_;
  AdminContext context_{.api = api_, .volume = {}};
};

TEST_F(QuotaCommandsTest, TheStateWithItsGraceTimes) {
  EXPECT_THAT(Run({"quota"}), HasSubstr("Quotas are on\n"));
  EXPECT_THAT(Run({"quota"}), ContainsRegex("user +7d +1h"));
  quotas_.set_state("counting");
  quotas_.set_inodes_counted_below(500);
  quotas_.set_inodes_end(2000);
  EXPECT_THAT(Run({"quota", "on"}), HasSubstr("counting: 25 % of the files are counted"));
  EXPECT_EQ(api_.Asked<v1::SetQuotasRequest>().state(), "on");
  EXPECT_EQ(ExitCode({"quota", "perhaps"}), 2);
}

TEST_F(QuotaCommandsTest, UsageAndLimitsAsTableAndJson) {
  v1::QuotasReply::Quota& quota = *quotas_.add_quotas();
  quota.set_id(987'654);
  quota.set_bytes(3 << 20);
  quota.mutable_limits()->set_soft_bytes(2 << 20);
  quota.set_space_state("grace");
  quota.set_space_grace_left_seconds(90);
  quota.set_files(12);
  EXPECT_THAT(Run({"quota", "list", "user"}),
              ContainsRegex("user +987654 +3 MiB +2 MiB +- +1m30s left +12 +- +- +-"));
  context_.json = true;
  const auto json = nlohmann::json::parse(Run({"quota", "get", "user", "987654"}));
  EXPECT_EQ(json["quotas"][0]["id"], 987'654);
  EXPECT_EQ(json["quotas"][0]["soft_bytes"], 2 << 20);
  EXPECT_EQ(api_.Asked<v1::QuotasRequest>().id(), 987'654u);
}

TEST_F(QuotaCommandsTest, LimitsAreSet) {
  Run({"quota", "set", "user", "root", "soft=1G", "files-hard=0"});
  const auto user = api_.Asked<v1::SetQuotasRequest>().limits();
  EXPECT_EQ(user.id(), 0u);
  EXPECT_EQ(user.soft_bytes(), 1u << 30);
  EXPECT_FALSE(user.has_hard_bytes());
  EXPECT_TRUE(user.has_hard_files());
  Run({"quota", "set", "tree", "scans", "hard=20T"});
  EXPECT_EQ(api_.Asked<v1::SetQuotasRequest>().limits().tree(), "scans");
  for (const char* limit : {"hard=much", "files-soft=1.5", "size=1G", "hard"}) {
    EXPECT_EQ(ExitCode({"quota", "set", "user", "root", limit}), 2) << limit;
  }
  EXPECT_EQ(ExitCode({"quota", "set", "user", "nobody knows", "hard=1G"}), 1);
}

TEST_F(QuotaCommandsTest, GraceTimesAreSet) {
  Run({"quota", "grace", "group", "space=3d", "files=12h"});
  const auto grace = api_.Asked<v1::SetQuotasRequest>().grace();
  EXPECT_EQ(grace.kind(), "group");
  EXPECT_EQ(grace.space_seconds(), 3u * 24 * 3600);
  EXPECT_EQ(grace.files_seconds(), 12u * 3600);
  for (const char* time : {"space=0d", "space=soon", "time=3d"}) {
    EXPECT_EQ(ExitCode({"quota", "grace", "group", time}), 2) << time;
  }
}

TEST_F(QuotaCommandsTest, TreesComeAndGo) {
  Run({"quota", "tree", "add", "scans"});
  EXPECT_EQ(api_.Asked<v1::SetQuotasRequest>().add_tree(), "scans");
  EXPECT_EQ(ExitCode({"quota", "tree", "add", "scans", "/proc"}), 1);  // no volume of ours
  EXPECT_EQ(ExitCode({"quota", "tree", "add", "scans", "/dev/null"}), 1);
  Run({"quota", "tree", "remove", "scans"});
  EXPECT_EQ(api_.Asked<v1::SetQuotasRequest>().remove_tree(), "scans");
}

}  // namespace
}  // namespace reel::tools
