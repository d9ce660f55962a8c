// Where tools look for LUNs: what is said on the command line, in a file, and in the shared one.
#include "tools/lib/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LunPatternsTest : public ::testing::Test {
 protected:
  LunPatternsTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~LunPatternsTest() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + name) << text;
    return directory_ + name;
  }

  const std::string directory_ = ::testing::TempDir() + "reel_lun_patterns/";
};

TEST_F(LunPatternsTest, TheSharedFileComesLast) {
  Write("reelfs.toml", "luns = ['/shared']\n");
  const std::string with = Write("mdc.toml", "listen = 'x'\nluns = ['/own']\n");
  const std::string without = Write("volume.toml", "name = 'reel'\n");
  EXPECT_THAT(*LunPatterns({"/given"}, with), ElementsAre("/given"));
  EXPECT_THAT(*LunPatterns({}, with), ElementsAre("/own"));
  EXPECT_THAT(*LunPatterns({}, without), ElementsAre("/shared"));
}

TEST_F(LunPatternsTest, MistakesAndGapsNameTheFile) {
  const std::string without = Write("volume.toml", "name = 'reel'\n");
  const auto gap = LunPatterns({}, without).status();
  EXPECT_TRUE(absl::IsNotFound(gap));
  EXPECT_THAT(std::string(gap.message()), HasSubstr(directory_ + "reelfs.toml"));
  Write("reelfs.toml", "\nlun = ['/shared']\n");
  EXPECT_THAT(std::string(LunPatterns({}, without).status().message()),
              HasSubstr("reelfs.toml:2: unknown key \"lun\""));
  EXPECT_TRUE(absl::IsNotFound(LunPatterns({}, directory_ + "absent.toml").status()));
}

}  // namespace
}  // namespace reel::tools
