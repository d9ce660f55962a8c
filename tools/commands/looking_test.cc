// The commands that look closely, against made-up answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/commands/command_table.h"
#include "tools/commands/mounted_file.h"
#include "tools/commands/testing/fake_api.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;

class LookingTest : public ::testing::Test {
 protected:
  LookingTest() {
    api_.AddVolume("reel");
    context_.wait = [this](std::uint64_t seconds) {
      waited_ += seconds;
      return on_wait_ ? on_wait_() : absl::OkStatus();
    };
  }
  Json Run(const Words& words) {
    auto data = RunForData(context_, words);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.value_or(Json());
  }
  absl::StatusCode Code(const Words& words) { return RunForData(context_, words).status().code(); }
  v1::WhoReply::Session& AddSession(std::uint64_t id, const std::string& host) {
    auto& session = *api_.who.add_sessions();
    session.set_session(id);
    session.set_host(host);
    session.set_luns_at_ms(1000);
    auto& lun = *session.add_luns();
    lun.set_name("data1");
    return session;
  }

  FakeApi api_;
  AdminContext context_{.api = api_, .volume = {}};
  std::uint64_t waited_ = 0;
  std::function<absl::Status()> on_wait_;
};

TEST_F(LookingTest, TopIsWhatClientsSaidBetweenTwoLooks) {
  auto& first = AddSession(1, "ws1");
  AddSession(2, "ws2");
  on_wait_ = [&] {
    first.set_luns_at_ms(3000);
    first.mutable_luns(0)->set_read_bytes(200 << 20);
    first.mutable_luns(0)->set_writes(20);
    return absl::OkStatus();
  };
  const Json top = Run({"top"});
  EXPECT_EQ(waited_, 5u);
  EXPECT_EQ(top["clients"][0]["read_bytes_per_second"], 100 << 20);
  EXPECT_TRUE(top["clients"][1]["read_bytes_per_second"].is_null()) << "it has said nothing";
  EXPECT_EQ(top["luns"][0]["writes_per_second"], 10);
  EXPECT_THAT(FindCommand("top")->text(top), HasSubstr("100 MiB/s"));
}

TEST_F(LookingTest, ShowOfAPoolIsThatPools) {
  for (const char* name : {"meta", "data"}) {
    auto& pool = *api_.show.add_pools();
    pool.set_name(name);
    pool.add_luns()->set_name(std::string(name) + "7");
  }
  EXPECT_EQ(Run({"show", "data"})["pools"].size(), 1u);
  EXPECT_EQ(Code({"show", "date"}), absl::StatusCode::kNotFound);
  const std::string text = FindCommand("show")->text(Run({"show", "data", "long"}));
  EXPECT_THAT(text, HasSubstr("data7"));
  EXPECT_THAT(FindCommand("show")->text(Run({"show"})), ::testing::Not(HasSubstr("data7")));
}

TEST_F(LookingTest, ClientsAreNamedByNumberOrHost) {
  v1::MeasureReply measured;
  measured.add_series()->set_problem("has asked nothing");
  api_.Answer("Measure", measured);
  AddSession(17, "ws1");
  AddSession(18, "ws2");
  AddSession(19, "ws2");
  EXPECT_EQ(Run({"trace", "ws1", "3"})["series"].size(), 1u);
  EXPECT_EQ(waited_, 3u);
  EXPECT_EQ(api_.Asked<v1::MeasureRequest>().session(), 17u);
  EXPECT_EQ(api_.Asked<v1::MeasureRequest>().begin(), v1::MeasureRequest::COLLECT);
  EXPECT_EQ(Code({"trace", "ws2"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Code({"trace", "ws3"}), absl::StatusCode::kNotFound);
  EXPECT_EQ(Code({"trace", "ws1", "0"}), absl::StatusCode::kInvalidArgument);
  Run({"latency-test"});
  EXPECT_EQ(api_.Asked<v1::MeasureRequest>().session(), 0u);
}

TEST_F(LookingTest, ExtentsAreAskedForUntilThereAreNoMore) {
  v1::FileReply file;
  file.set_block_bytes(4096);
  file.set_type("file");
  auto& extent = *file.add_extents();
  extent.set_length_blocks(2);
  extent.set_state("written");
  auto& piece = *extent.add_pieces();
  piece.set_lun("data1");
  piece.set_offset_bytes(1 << 20);
  api_.Answer("File", file);
  const Json json = Run({"extents", "/cut.mov"});
  EXPECT_EQ(api_.Asked<v1::FileRequest>().path(), "/cut.mov");
  EXPECT_EQ(json["extents"][0]["length_bytes"], 8192);
  EXPECT_THAT(FindCommand("extents")->text(json), HasSubstr("data1@1048576"));
  EXPECT_EQ(Code({"extents", "cut.mov"}), absl::StatusCode::kInvalidArgument);
}

TEST_F(LookingTest, EachControllerSaysItsOwn) {
  v1::ExportsReply exports;
  exports.add_exports()->add_clients("ws*");
  exports.mutable_exports(0)->set_access("ro");
  api_.Answer("Exports", exports);
  const Json json = Run({"exports", "reload"});
  EXPECT_TRUE(api_.Asked<v1::ExportsRequest>().reload());
  EXPECT_EQ(json["controllers"][0]["exports"][0]["access"], "ro");
  EXPECT_EQ(json["controllers"][1]["problem"], "no answer");
  EXPECT_THAT(FindCommand("exports")->text(json), HasSubstr("Sessions keep what they were given"));
  api_.status = absl::UnavailableError("no answer");
  EXPECT_EQ(Code({"log-level"}), absl::StatusCode::kUnavailable);
}

TEST_F(LookingTest, SelectIsForWhatComesAfter) {
  api_.AddVolume("other");
  EXPECT_EQ(Code({"select", "none"}), absl::StatusCode::kNotFound);
  Run({"select", "other"});
  Run({"who"});
  EXPECT_EQ(api_.Asked<v1::WhoRequest>().volume(), "other");
}

TEST(MountedFileTest, TheVolumeIsTheSourceOfTheMount) {
  constexpr char kTable[] =
      "30 22 0:26 / /mnt/edit rw,relatime - fuse.reelfs edit rw\n"
      "31 22 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n";
  EXPECT_EQ(VolumeOfDevice(kTable, 0, 26), "edit");
  EXPECT_EQ(VolumeOfDevice(kTable, 8, 1), "");
  EXPECT_EQ(VolumeOfDevice(kTable, 0, 2), "");
}

TEST(SplitWordsTest, QuotesAndBackslashesKeepASpace) {
  EXPECT_EQ(*SplitWords(R"( extents "/a file" b\ c  'd"e' "")"),
            (Words{"extents", "/a file", "b c", "d\"e", ""}));
  EXPECT_FALSE(SplitWords("extents \"/a").ok());
}

}  // namespace
}  // namespace reel::tools
