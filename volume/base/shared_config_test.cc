// The file that all programs of a host fall back to.
#include "volume/base/shared_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SharedConfig, KnowsWhereEachValueStands) {
  const auto config = ParseSharedConfig(
      "mdc = ['a', 'b:2']\n\nluns = ['/x/*',\n  'iscsi://h/t/0']\ntls_ca = '/ca'\n", "r.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->mdcs.size(), 2u);
  EXPECT_EQ(config->mdcs[1].text, "b:2");
  EXPECT_THAT(config->lun_patterns(), ElementsAre("/x/*", "iscsi://h/t/0"));
  EXPECT_EQ(config->luns[1].where, "r.toml:4: ");
  EXPECT_EQ(config->tls_ca->text, "/ca");
  EXPECT_EQ(config->tls_ca->where, "r.toml:5: ");
}

TEST(SharedConfig, ErrorsNameTheLine) {
  const auto error = [](const char* text) {
    return std::string(ParseSharedConfig(text, "r.toml").status().message());
  };
  EXPECT_THAT(error("\nlun = ['/x']\n"), HasSubstr("r.toml:2: unknown key \"lun\""));
  EXPECT_THAT(error("mdc = 'a'\n"), HasSubstr("r.toml:1: mdc must be a list"));
  // What belongs to one role alone does not stand here.
  EXPECT_THAT(error("tls_key = '/k'\n"), HasSubstr("r.toml:1: unknown key \"tls_key\""));
}

TEST(SharedConfig, LiesBesideTheProgramsOwn) {
  EXPECT_EQ(SharedConfigBeside("/etc/reelfs/mdc.toml"), "/etc/reelfs/reelfs.toml");
  EXPECT_EQ(SharedConfigBeside("mdc.toml"), "reelfs.toml");
}

TEST(SharedConfig, NeedNotBeThere) {
  const auto config = ReadSharedConfig("/nonexistent/reelfs.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->luns, IsEmpty());
}

}  // namespace
}  // namespace reel
