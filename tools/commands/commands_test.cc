// reeladm's commands against made-up answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "nlohmann/json.hpp"
#include "tools/commands/command_table.h"
#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdminTest : public ::testing::Test {
 protected:
  std::string Run(const std::vector<std::string>& words) {
    auto outcome = RunAdminCommand(context_, words);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or("");
  }
  nlohmann::json RunJson(const std::vector<std::string>& words) {
    context_.json = true;
    return nlohmann::json::parse(Run(words));
  }
  int ExitCode(const std::vector<std::string>& words) {
    return AdminExitCode(RunAdminCommand(context_, words).status());
  }

  FakeApi api_;
  AdminContext context_{.api = api_, .volume = {}};
};

TEST_F(AdminTest, VolumesAsTableAndJson) {
  api_.AddVolume("reel1");
  EXPECT_THAT(Run({"volumes"}), HasSubstr("reel1   active      3  mdc1:7440 (studio1)"));
  const auto json = RunJson({"volumes"});
  EXPECT_EQ(json["volumes"][0]["name"], "reel1");
  EXPECT_EQ(json["volumes"][0]["epoch"], 3);
  EXPECT_EQ(json["volumes"][0]["active"], "mdc1:7440");
}

TEST_F(AdminTest, AlarmsAreShown) {
  api_.AddVolume("reel1");
  api_.show.add_alarms("lun7 does not answer");
  api_.show.add_notes("lun8 has grown");
  EXPECT_THAT(Run({"show"}), HasSubstr("ALARM: lun7 does not answer\nNote: lun8 has grown\n"));
  EXPECT_EQ(RunJson({"show"})["alarms"][0], "lun7 does not answer");
  EXPECT_EQ(RunJson({"show"})["notes"][0], "lun8 has grown");
}

TEST_F(AdminTest, ActivateLetsTheActiveOneHandOverToThatStandby) {
  api_.AddVolume("reel1");
  auto& volume = *api_.volumes.mutable_volumes(0);
  volume.set_role("standby");
  volume.set_holder("who");
  volume.set_active("mdc1:7440");
  api_.on_order = [&] { volume.set_role("active"); };
  EXPECT_THAT(Run({"activate", "mdc2"}), HasSubstr("served by the MDC at mdc2:7440"));
  EXPECT_THAT(api_.orders, ElementsAre("at mdc1:7440", "fail reel1 to who"));
  // It is there already.
  api_.orders.clear();
  EXPECT_EQ(RunJson({"activate"})["active"], "mdc1:7440");
  EXPECT_THAT(api_.orders, ElementsAre());
}

TEST_F(AdminTest, ActivateTakesOverFromOneThatIsGone) {
  api_.AddVolume("reel1");
  auto& volume = *api_.volumes.mutable_volumes(0);
  volume.set_role("standby");
  volume.set_active("mdc9:7440");
  api_.on_order = [&] { volume.set_role("active"); };
  EXPECT_THAT(Run({"activate", "mdc2"}), HasSubstr("served by"));
  EXPECT_THAT(api_.orders, ElementsAre("at mdc9:7440", "at mdc2:7440", "start reel1"));
  EXPECT_EQ(ExitCode({"activate", "mdc9"}), 3);
  EXPECT_EQ(ExitCode({"activate", "a b"}), 2);
  volume.set_role("standby");
  volume.set_stopped(true);
  EXPECT_EQ(ExitCode({"activate", "mdc2"}), 1);
}

TEST_F(AdminTest, StopAndStart) {
  api_.AddVolume("reel1");
  auto& volume = *api_.volumes.mutable_volumes(0);
  api_.on_order = [&] {
    volume.set_stopped(!volume.stopped());
    volume.set_role(volume.stopped() ? "standby" : "active");
  };
  EXPECT_THAT(Run({"stop"}), HasSubstr("3 clients wait"));
  EXPECT_THAT(Run({"volumes"}), ContainsRegex("mdc1:7440 .studio1.  stopped"));
  EXPECT_THAT(Run({"start", "mdc2"}), HasSubstr("served by the MDC at mdc2:7440"));
  EXPECT_THAT(api_.orders, ElementsAre("stop reel1", "at mdc2:7440", "start reel1"));
  EXPECT_EQ(RunJson({"start"})["active"], "mdc1:7440") << "it serves already";
  EXPECT_EQ(RunJson({"stop"})["sessions"], 3);
}

TEST_F(AdminTest, DisruptiveCommandsAskFirst) {
  api_.AddVolume("reel1");
  std::vector<std::string> questions;
  context_.confirm = [&](const std::string& question) {
    questions.push_back(question);
    return false;
  };
  EXPECT_EQ(ExitCode({"evict", "ws1"}), 2);
  EXPECT_THAT(questions, ElementsAre());
  EXPECT_EQ(ExitCode({"stop"}), 1);
  EXPECT_EQ(ExitCode({"evict", "17"}), 1);
  EXPECT_THAT(questions, ElementsAre(HasSubstr("volume reel1"), HasSubstr("session 17")));
  EXPECT_THAT(api_.orders, ElementsAre());
}

TEST_F(AdminTest, MaintenanceIsOrderedAndShown) {
  api_.AddVolume("reel1");
  EXPECT_THAT(Run({"maintenance", "on"}), HasSubstr("is in maintenance"));
  EXPECT_TRUE(api_.Asked<v1::MaintenanceRequest>().on());
  EXPECT_THAT(Run({"maintenance", "off"}), HasSubstr("is not in maintenance"));
  EXPECT_FALSE(api_.Asked<v1::MaintenanceRequest>().on());
  EXPECT_EQ(ExitCode({"maintenance", "maybe"}), 2);
  api_.volumes.mutable_volumes(0)->set_maintenance(true);
  EXPECT_TRUE(RunJson({"maintenance"})["maintenance"]);
}

TEST_F(AdminTest, ShowListsAllControllers) {
  api_.AddVolume("reel1");
  api_.volumes.set_program("0.9");
  api_.volumes.set_protocol("1 to 2");
  api_.volumes.set_host("studio1");
  EXPECT_THAT(Run({"show"}), ContainsRegex("mdc1:7440  active +3  studio1  0.9 +1 to 2"));
  EXPECT_THAT(Run({"show"}), HasSubstr("mdc2:7440  does not answer"));
  const auto json = RunJson({"show"});
  EXPECT_EQ(json["controllers"][0]["epoch"], 3);
  EXPECT_EQ(json["controllers"][1]["problem"], "no answer");
}

TEST_F(AdminTest, EvictNamesOneSession) {
  api_.AddVolume("reel1");
  EXPECT_EQ(ExitCode({"evict"}), 2);
  EXPECT_EQ(ExitCode({"evict", "ws1"}), 2);
  EXPECT_THAT(Run({"evict", "17"}), HasSubstr("Session 17 is ending"));
  EXPECT_EQ(api_.Asked<v1::EvictRequest>().session(), 17U);
  EXPECT_EQ(api_.Asked<v1::EvictRequest>().volume(), "reel1");
  EXPECT_EQ(RunJson({"evict", "17"})["evicted"], 17);
}

TEST_F(AdminTest, ReservationsNameTheOwnersOfKeys) {
  api_.AddVolume("reel1");
  auto* lun = api_.reservations.add_luns();
  lun->set_name("data1");
  auto* key = lun->add_keys();
  key->set_key(0x12ab);
  key->set_owner("controller");
  key->set_holder(true);
  key->set_paths(2);
  api_.reservations.add_luns()->set_problem("no answer");
  const std::string text = Run({"reservations"});
  EXPECT_THAT(text, ContainsRegex("data1 +0x00000000000012ab +controller +yes +2"));
  EXPECT_THAT(text, HasSubstr("no answer"));
  const auto json = RunJson({"reservations"});
  EXPECT_EQ(json["luns"][0]["keys"][0]["owner"], "controller");
  EXPECT_EQ(json["luns"][1]["problem"], "no answer");
}

TEST_F(AdminTest, ShowCountsInIecUnits) {
  api_.AddVolume("reel1");
  api_.show.set_name("reel1");
  api_.show.set_block_bytes(16384);
  auto* pool = api_.show.add_pools();
  pool->set_name("data");
  pool->add_flags("data");
  pool->set_breadth_bytes(1 << 20);
  pool->set_total_bytes(std::uint64_t{4} << 30);
  pool->set_free_bytes(std::uint64_t{1} << 30);
  const std::string text = Run({"show"});
  EXPECT_THAT(text, HasSubstr("data  data   -             1 MiB  16 KiB  4 GiB  1 GiB  75 %"));
  EXPECT_EQ(api_.Asked<v1::ShowRequest>().volume(), "reel1");
  EXPECT_EQ(RunJson({"show"})["pools"][0]["free_bytes"], std::uint64_t{1} << 30);
}

TEST_F(AdminTest, ShowSaysHowFullTheStoreIs) {
  api_.AddVolume("reel1");
  EXPECT_THAT(Run({"show"}),
              ::testing::Not(HasSubstr("Metadata store")));  // of a controller before it
  api_.show.set_store_bytes(std::uint64_t{512} << 20);
  api_.show.set_store_free_bytes(std::uint64_t{384} << 20);
  EXPECT_THAT(Run({"show"}), HasSubstr("Metadata store: 128 MiB of 512 MiB used (25 %)"));
  EXPECT_EQ(RunJson({"show"})["store_free_bytes"], std::uint64_t{384} << 20);
}

TEST_F(AdminTest, StatPicksByPrefix) {
  context_.volume = "reel1";
  for (const char* name : {"op.create", "op.lookup", "wire.bytes_in"}) {
    auto* counter = api_.stat.add_counters();
    counter->set_name(name);
    counter->set_value(7);
  }
  EXPECT_EQ(RunJson({"stat"})["counters"].size(), 3u);
  EXPECT_EQ(RunJson({"stat", "op."})["counters"].size(), 2u);
}

TEST_F(AdminTest, TheWhoCommandShowsSessions) {
  context_.volume = "reel1";
  auto* session = api_.who.add_sessions();
  session->set_session(12);
  session->set_host("ws1");
  session->set_mount_point("/reel");
  session->set_lease_left_ms(9500);
  session->mutable_registered()->set_seconds(1'700'000'000);
  session->set_fuse(v1::FUSE_WAY_URING);
  EXPECT_THAT(Run({"who"}), ContainsRegex("ws1 +- +/reel"));
  EXPECT_EQ(RunJson({"who"})["sessions"][0]["fuse"], "io_uring");
  EXPECT_EQ(RunJson({"who"})["sessions"][0]["registered"], "2023-11-14T22:13:20Z");
}

TEST_F(AdminTest, LocksAreListedAndBroken) {
  context_.volume = "reel1";
  EXPECT_EQ(ExitCode({"locks", "break", "7"}), 1);  // nobody holds one
  auto* lock = api_.locks.add_locks();
  lock->set_inode(7);
  lock->set_kind("fcntl");
  lock->set_type("write");
  lock->set_last((std::uint64_t{1} << 63) - 1);
  lock->set_session(12);
  lock->set_host("ws1");
  EXPECT_THAT(Run({"locks"}), ContainsRegex("fcntl +write +0 +end +12 +ws1 +0 +held"));
  EXPECT_THAT(Run({"locks", "break", "7", "12"}), HasSubstr("Warning"));
  EXPECT_EQ(api_.Asked<v1::BreakLocksRequest>().inode(), 7u);
  EXPECT_EQ(api_.Asked<v1::BreakLocksRequest>().session(), 12u);
  for (const char* wrong : {"0", "x", "-1"}) EXPECT_EQ(ExitCode({"locks", "break", wrong}), 2);
  EXPECT_EQ(ExitCode({"locks", "show", "7"}), 2);
  EXPECT_EQ(RunJson({"locks"})["locks"][0]["state"], "held");
}

TEST_F(AdminTest, SeveralVolumesNeedAChoice) {
  api_.AddVolume("a");
  api_.AddVolume("b");
  EXPECT_EQ(ExitCode({"show"}), 2);
  EXPECT_THAT(RunAdminCommand(context_, {"show"}).status().message(), HasSubstr("--volume: a, b"));
  context_.volume = "b";
  EXPECT_EQ(ExitCode({"show"}), 0);
  EXPECT_EQ(api_.Asked<v1::ShowRequest>().volume(), "b");
}

TEST_F(AdminTest, ExitCodes) {
  EXPECT_EQ(ExitCode({"volumes"}), 0);
  EXPECT_EQ(ExitCode({"shwo"}), 2);
  EXPECT_EQ(ExitCode({"volumes", "too", "much"}), 2);
  EXPECT_EQ(ExitCode({"help", "stat"}), 0);
  EXPECT_EQ(ExitCode({"show"}), 1);  // serves no volume
  api_.status = absl::UnavailableError("no answer");
  EXPECT_EQ(ExitCode({"volumes"}), 3);
}

class AdminDumpTest : public AdminTest {
 protected:
  AdminDumpTest() {
    std::filesystem::create_directories(directory_);
    api_.AddVolume("reel");
    api_.begin_dump.set_dump(std::string(16, 'd'));
    api_.dump_blocks = {"head", "records", "end"};
  }
  ~AdminDumpTest() override { std::filesystem::remove_all(directory_); }

  const std::string directory_ = ::testing::TempDir() + "reel_admin_dump/";
  const std::string file_ = directory_ + "reel.dump";
};

TEST_F(AdminDumpTest, IsKeptOnceItsFileIsWhole) {
  std::ofstream(file_) << "the last one";
  EXPECT_EQ(RunJson({"dump", file_})["bytes"], 14);
  std::stringstream read;
  read << std::ifstream(file_).rdbuf();
  EXPECT_EQ(read.str(), "headrecordsend");
  EXPECT_EQ(api_.Asked<v1::KeepDumpRequest>().dump(), std::string(16, 'd'));
  EXPECT_FALSE(std::filesystem::exists(file_ + ".tmp"));
}

TEST_F(AdminDumpTest, LeavesTheLastOneWhereItFails) {
  std::ofstream(file_) << "the last one";
  context_.volume = "reel";
  api_.status = absl::NotFoundError("void");
  EXPECT_EQ(ExitCode({"dump", file_}), 1);
  EXPECT_EQ(std::filesystem::file_size(file_), 12u);
  EXPECT_FALSE(std::filesystem::exists(file_ + ".tmp"));
  EXPECT_EQ(api_.Asked<v1::KeepDumpRequest>().dump(), "");
  EXPECT_EQ(ExitCode({"dump", directory_ + "no/such/directory"}), 1);
}

TEST_F(AdminDumpTest, IsReleasedByAWordOfItsOwn) {
  EXPECT_THAT(Run({"dump"}), HasSubstr("No dump"));
  api_.show.mutable_kept_dump()->set_dump(std::string(16, 'd'));
  api_.show.set_waiting_bytes(1 << 20);
  EXPECT_THAT(Run({"dump"}), HasSubstr("1 MiB"));
  EXPECT_THAT(Run({"show"}), HasSubstr("Dump of the metadata: of "));
  Run({"dump", "release"});
  EXPECT_EQ(api_.Asked<v1::ReleaseDumpRequest>().volume(), "reel");
}

}  // namespace
}  // namespace reel::tools
