#include "mdc/daemon/live_config.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr char kBegin[] = R"(
listen = "127.0.0.1:7440"
luns = ["/dev/a*", "/dev/b*"]
[[volume]]
name = "reel"
)";

class LiveConfigTest : public ::testing::Test {
 protected:
  void Write(const std::string& more) { std::ofstream(path_) << kBegin << more; }
  LiveConfig Begin() {
    Write("");
    auto config = ReadConfig(path_);
    EXPECT_TRUE(config.ok()) << config.status();
    return {*config, path_};
  }
  const std::string path_ = ::testing::TempDir() + "reel_live_config.toml";
};

TEST_F(LiveConfigTest, ExportsAreReadAgainWhenAskedTo) {
  const LiveConfig live = Begin();
  Write("[[volume.export]]\nclients = [\"ws*\"]\naccess = \"ro\"\n");
  EXPECT_TRUE(live.Exports("reel", /*reload=*/false)->empty());
  ASSERT_EQ(live.Exports("reel", /*reload=*/true)->size(), 1u);
  EXPECT_EQ(live.exports("reel")->Get().at(0).access, Export::Access::kReadOnly);
}

TEST_F(LiveConfigTest, AFileThatIsWrongChangesNothing) {
  const LiveConfig live = Begin();
  Write("[[volume.export]]\nclients = [\"ws*\"]\naccess = \"maybe\"\n");
  EXPECT_FALSE(live.Exports("reel", /*reload=*/true).ok());
  EXPECT_TRUE(live.Exports("reel", /*reload=*/false)->empty());
  EXPECT_EQ(live.Exports("other", /*reload=*/true).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LiveConfigTest, EverySettingIsTold) {
  v1::SettingsReply reply;
  Begin().Describe(reply);
  EXPECT_EQ(reply.config(), path_);
  std::string told;
  for (const auto& setting : reply.settings()) {
    absl::StrAppend(&told, setting.name(), "=", setting.value(), "\n");
  }
  EXPECT_NE(told.find("luns=/dev/a* /dev/b*\n"), told.npos) << told;
  EXPECT_NE(told.find("session_lease_ms=10000\n"), told.npos) << told;
  EXPECT_NE(told.find("names=delegated\n"), told.npos) << told;
  EXPECT_NE(told.find("volume.reel.luns=/dev/a* /dev/b*\n"), told.npos) << told;
}

}  // namespace
}  // namespace reel::mdc
