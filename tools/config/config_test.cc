// What is wrong with a host's files, and what its programs go by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "tools/config/config_report.h"
#include "tools/config/config_values.h"
#include "tools/config/host_config.h"

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HostConfigTest : public ::testing::Test {
 protected:
  HostConfigTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~HostConfigTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& text) { std::ofstream(In(name)) << text; }
  std::string In(const std::string& name) const { return directory_ + "/" + name; }
  HostConfig Read() const { return ReadHostConfig(directory_); }
  // VALUE from FILE:LINE, of a program's key.
  std::string Shown(const std::string& program, const std::string& key) const {
    for (const ConfigValue& value : ValuesOf(Read())) {
      if (value.program != program || value.key != key) continue;
      std::string text;
      for (const std::string& one : value.values) text += one + " ";
      const std::size_t name = value.from.rfind('/');
      return text + "from " + (name == value.from.npos ? value.from : value.from.substr(name + 1));
    }
    return "none";
  }

  const std::string directory_ = ::testing::TempDir() + "reel_host_config";
};

TEST_F(HostConfigTest, ShowsWhereEachValueIsFrom) {
  Write("reelfs.toml", "mdc = ['127.0.0.1', '127.0.0.2:7']\n\nluns = ['/shared/*']\n");
  Write("mdc.toml", "listen = '127.0.0.1:7440'\nseat_ms = 2000\n\n[[volume]]\nname = 'reel'\n");
  Write("client.toml", "luns = ['/mine']\n");
  Write("reeladm.toml", "volume = 'reel'\n");
  EXPECT_EQ(Shown("reel-mdcd", "luns"), "/shared/* from reelfs.toml:3");
  EXPECT_EQ(Shown("reel-mdcd", "seat_ms"), "2000 from mdc.toml:2");
  EXPECT_EQ(Shown("reel-mdcd", "cache_mib"), "512 from default");
  EXPECT_EQ(Shown("reel-mdcd", "volume"), "reel from mdc.toml:4");
  EXPECT_EQ(Shown("mount.reelfs", "mdc"), "127.0.0.1:7440 127.0.0.2:7 from reelfs.toml:1");
  EXPECT_EQ(Shown("mount.reelfs", "luns"), "/mine from client.toml:1");
  EXPECT_EQ(Shown("reeladm", "mdc"), "127.0.0.1:7440 127.0.0.2:7 from reelfs.toml:1");
  EXPECT_EQ(Shown("reeladm", "volume"), "reel from reeladm.toml:1");
  EXPECT_THAT(ValuesText(ValuesOf(Read())),
              HasSubstr("                                127.0.0.2:7\n"));
  const auto json = ValuesJson(ValuesOf(Read()));
  EXPECT_EQ(json[0]["key"], "listen");
  EXPECT_EQ(json[0]["from"], In("mdc.toml") + ":1");
}

TEST_F(HostConfigTest, SecretsAreNotShown) {
  Write("reelfs.toml", "mdc = ['m']\nluns = ['iscsi://u%secret@h/iqn.x/1']\n");
  EXPECT_THAT(Shown("mount.reelfs", "luns"), Not(HasSubstr("secret")));
}

TEST_F(HostConfigTest, SaysWhatIsWrongWithEachFile) {
  Write("reelfs.toml", "mdc = ['127.0.0.1']\nluns = ['/x']\n");
  Write("mdc.toml", "listen = '127.0.0.1:7440'\nseat = 1\n");
  Write("client.toml", "\nlun = ['/x']\n");
  Write("volume.toml", "name = 'reel'\n");
  const HostConfig config = Read();
  EXPECT_TRUE(config.any_error());
  EXPECT_THAT(config.file("reelfs.toml").errors, IsEmpty());
  EXPECT_THAT(config.file("mdc.toml").errors,
              ElementsAre(HasSubstr("mdc.toml:1: 1 to 64 [[volume]] tables are needed"),
                          In("mdc.toml") + ":2: unknown key \"seat\""));
  EXPECT_THAT(config.file("client.toml").errors,
              ElementsAre(In("client.toml") + ":2: unknown key \"lun\""));
  EXPECT_THAT(config.file("volume.toml").errors, ElementsAre(HasSubstr("[[pool]] is needed")));
  EXPECT_THAT(CheckText(config), HasSubstr(In("reelfs.toml") + ": ok\n"));
  const auto json = CheckJson(config);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["files"].size(), 4u);
}

TEST_F(HostConfigTest, SaysAllMistakesOfAFile) {
  Write("reelfs.toml", "mdc = ['127.0.0.1']\nluns = ['/x']\n");
  Write("mdc.toml",
        "listen = 7440\nseat = 1\nseat_ms = 'x'\nluns = [\n  1,\n]\n[[volume]]\nname = 'reel'\n");
  // That the address is missing follows from the first one.
  EXPECT_THAT(Read().file("mdc.toml").errors,
              ElementsAre(HasSubstr("mdc.toml:1: listen"), HasSubstr("mdc.toml:2: unknown key"),
                          HasSubstr("mdc.toml:3: seat_ms"), HasSubstr("mdc.toml:5: luns")));
}

TEST_F(HostConfigTest, AMistakeThatAllProgramsShareIsSaidOnce) {
  Write("reelfs.toml", "lun = ['/x']\n");
  Write("mdc.toml", "listen = '127.0.0.1:7440'\n[[volume]]\nname = 'reel'\n");
  Write("client.toml", "mdc = ['m']\n");
  const HostConfig config = Read();
  EXPECT_THAT(config.file("reelfs.toml").errors, ElementsAre(HasSubstr(":1: unknown key \"lun\"")));
  EXPECT_THAT(config.file("mdc.toml").errors, IsEmpty());
  EXPECT_THAT(config.file("client.toml").errors, IsEmpty());
}

TEST_F(HostConfigTest, CertificatesAreLookedAtToo) {
  Write("reelfs.toml", "mdc = ['m']\nluns = ['/x']\ntls_ca = '/nonexistent/ca.crt'\n");
  Write("client.toml", "# mine\ntls_cert = '/nonexistent/c.crt'\ntls_key = '/nonexistent/c.key'\n");
  EXPECT_THAT(Read().file("client.toml").AllErrors(),
              ElementsAre(HasSubstr(In("client.toml") + ":2: tls_ca /nonexistent/ca.crt")));
}

TEST_F(HostConfigTest, AControllerThatNobodyKnowsIsAWarning) {
  Write("reelfs.toml", "mdc = ['127.0.0.2']\nluns = ['/x']\n");
  Write("mdc.toml", "listen = '127.0.0.1:7440'\n[[volume]]\nname = 'reel'\n");
  const HostConfig config = Read();
  EXPECT_FALSE(config.any_error());
  EXPECT_THAT(config.file("mdc.toml").warnings, ElementsAre(HasSubstr("127.0.0.1:7440")));
}

TEST_F(HostConfigTest, WhatMountsMayNameThemselvesIsNoMistake) {
  Write("client.toml", "luns = ['/x']\n");
  const HostConfig config = Read();
  EXPECT_FALSE(config.any_error());
  EXPECT_THAT(config.file("client.toml").warnings, ElementsAre(HasSubstr("client.toml:1: mdc ")));
  EXPECT_TRUE(config.client.has_value());
}

TEST_F(HostConfigTest, AControllerKnowsItself) {
  Write("mdc.toml", "listen = '127.0.0.1:7440'\nluns = ['/x']\n[[volume]]\nname = 'reel'\n");
  EXPECT_THAT(Read().Controllers(), ElementsAre("127.0.0.1:7440"));
}

TEST_F(HostConfigTest, AHostWithTheSharedFileAloneIsAClients) {
  EXPECT_FALSE(Read().any_file());
  Write("reelfs.toml", "mdc = ['m']\nluns = ['/x']\n");
  const HostConfig config = Read();
  ASSERT_TRUE(config.client.has_value());
  EXPECT_THAT(config.Controllers(), ElementsAre("m:7440"));
  EXPECT_THAT(config.LunPatterns(), ElementsAre("/x"));
}

}  // namespace
}  // namespace reel::tools
