#include "mdc/daemon/config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kGood[] = R"(
listen = "127.0.0.1:7440"
luns = ["/dev/a", "/dev/b*"]
session_lease_ms = 5000
[[volume]]
name = "reel"
[[volume]]
name = "grade"
luns = ["/dev/c"]
)";

std::string Error(const std::string& text) {
  const auto config = ParseConfig(text, "file");
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(Config, AWholeFile) {
  const auto config = ParseConfig(kGood, "file");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->session_lease_ms, 5000u);
  EXPECT_EQ(config->names, NameReplies::kDelegated);
  EXPECT_EQ(config->cache_mib, 512u);
  ASSERT_EQ(config->volumes.size(), 2u);
  EXPECT_THAT(config->volumes[0].luns, ElementsAre("/dev/a", "/dev/b*"));
  EXPECT_THAT(config->volumes[1].luns, ElementsAre("/dev/c"));
}

TEST(Config, MetricsAreServedBesideWithTlsOrWhereTheFileSays) {
  const auto config = [](const std::string& more) { return ParseConfig(more + kGood, "file"); };
  EXPECT_EQ(config("")->web_listen, "");
  const std::string tls = "tls_ca = \"a\"\ntls_cert = \"b\"\ntls_key = \"c\"\n";
  ASSERT_TRUE(config(tls).ok()) << config(tls).status();
  EXPECT_EQ(config(tls)->web_listen, "127.0.0.1:7443");
  EXPECT_EQ(config(tls + "web_listen = \"off\"\n")->web_listen, "");
  EXPECT_EQ(config("web_listen = \"127.0.0.1:99\"\n")->web_listen, "127.0.0.1:99");
  EXPECT_THAT(Error(std::string("web_listen = \"0.0.0.0:99\"\n") + kGood),
              HasSubstr("web_listen = \"0.0.0.0:99\": without TLS"));
  EXPECT_THAT(Error(std::string("web_listen = \"mdc1\"\n") + kGood), HasSubstr("HOST:PORT"));
}

TEST(Config, NamesChoosesWhenChangesAreAnswered) {
  const auto early = ParseConfig(std::string("names = \"early\"") + kGood, "file");
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_EQ(early->names, NameReplies::kEarly);
  const auto durable = ParseConfig(std::string("names = \"durable\"") + kGood, "file");
  ASSERT_TRUE(durable.ok()) << durable.status();
  EXPECT_EQ(durable->names, NameReplies::kDurable);
  EXPECT_THAT(Error(std::string("names = \"soon\"") + kGood), HasSubstr("names must be one of"));
}

TEST(Config, ScrubsHaveASchedule) {
  const auto every = [](const std::string& words) {
    const auto config = ParseConfig(std::string(kGood) + "scrub = \"" + words + "\"\n", "file");
    return config.ok() ? config->volumes[1].scrub_every_seconds : 1;
  };
  EXPECT_EQ(ParseConfig(kGood, "file")->volumes[1].scrub_every_seconds, 0u);
  EXPECT_EQ(every("never"), 0u);
  EXPECT_EQ(every("daily"), 86'400u);
  EXPECT_EQ(every("weekly"), 7 * 86'400u);
  EXPECT_EQ(every("monthly"), 30 * 86'400u);
  EXPECT_EQ(every("36h"), 36 * 3'600u);
  EXPECT_EQ(every("10d"), 10 * 86'400u);
  for (const char* wrong : {"", "h", "0h", "-1h", "1.5d", "yearly", "5", "99999999d"}) {
    EXPECT_EQ(every(wrong), 1u) << wrong;
  }
  EXPECT_THAT(Error(std::string(kGood) + "scrub = \"soon\"\n"), HasSubstr("file:10: scrub = "));
}

TEST(Config, SmallFilesAreAsTheVolumeWasMadeUnlessItSaysOtherwise) {
  const auto bytes = [](const std::string& line) {
    return ParseConfig(std::string(kGood) + line, "file")->volumes[1].small_file_bytes;
  };
  EXPECT_EQ(bytes(""), std::nullopt);
  EXPECT_EQ(bytes("small_file_bytes = 0\n"), 0u);
  EXPECT_EQ(bytes("small_file_bytes = 16384\n"), 16384u);
  EXPECT_THAT(Error(std::string(kGood) + "small_file_bytes = 16385\n"),
              HasSubstr("file:10: small_file_bytes"));
}

TEST(Config, ErrorsNameTheLine) {
  EXPECT_THAT(Error("listen = 1\n"), HasSubstr("file:1: listen must be a string"));
  EXPECT_THAT(Error(std::string("\nlissen = \"x\"") + kGood), HasSubstr("file:2: unknown key"));
  EXPECT_THAT(Error(std::string(kGood) + "size = 1\n"), HasSubstr("file:10: unknown key \"size\""));
  EXPECT_THAT(Error(std::string("session_lease_ms = \"10\"") + kGood), HasSubstr("file:"));
  EXPECT_THAT(Error("listen = [\n"), HasSubstr("file:"));
  EXPECT_THAT(Error(std::string(kGood) + "[[volume]]\nname = \"reel\"\nluns = [\"x\"]\n"),
              HasSubstr("a second time"));
  EXPECT_THAT(Error("listen = \"127.0.0.1:1\"\nluns = [\"x\"]\n"), HasSubstr("[[volume]]"));
  EXPECT_THAT(Error("listen = \"127.0.0.1:1\"\n[[volume]]\nname = \"a\"\n"), HasSubstr("no luns"));
  EXPECT_THAT(Error("log_level = \"loud\"\n" + std::string(kGood)), HasSubstr("log_level"));
}

TEST(Config, Exports) {
  const auto config = ParseConfig(std::string(kGood) +
                                      "[[volume.export]]\nclients = [\"edit-*\"]\naccess = \"ro\"\n"
                                      "[[volume.export]]\nclients = [\"*\"]\nsquash = \"root\"\n"
                                      "anonymous_uid = 99\n",
                                  "file");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->volumes[0].exports.empty());
  ASSERT_EQ(config->volumes[1].exports.size(), 2u);
  const Export& first = config->volumes[1].exports[0];
  EXPECT_EQ(first.access, Export::Access::kReadOnly);
  EXPECT_EQ(first.squash, Export::Squash::kNone);
  EXPECT_EQ(config->volumes[1].exports[1].squash, Export::Squash::kRoot);
  EXPECT_EQ(config->volumes[1].exports[1].anonymous_uid, 99u);
  EXPECT_EQ(config->volumes[1].exports[1].anonymous_gid, 65534u);
  const std::string head = std::string(kGood) + "[[volume.export]]\n";
  EXPECT_THAT(Error(head), HasSubstr("file:10: an export without clients"));
  EXPECT_THAT(Error(head + "clients = [\"*\"]\naccess = \"write\"\n"),
              HasSubstr("file:12: access must be one of"));
  EXPECT_THAT(Error(head + "client = [\"*\"]\n"), HasSubstr("unknown key"));
}

TEST(Config, WhatTheHostSharesIsTakenWhereItsOwnSaysNothing) {
  SharedConfig shared;
  shared.luns = {{"/shared/*", "r:1: "}};
  shared.tls_ca = {"/ca", "r:2: "};
  constexpr std::string_view kVolume = "[[volume]]\nname = \"a\"\n";
  const auto config = ParseConfig(
      absl::StrCat("listen = \"m:1\"\ntls_cert = \"/c\"\ntls_key = \"/k\"\n", std::string(kVolume)),
      "file", shared);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->volumes[0].luns, ElementsAre("/shared/*"));
  EXPECT_EQ(config->tls.ca, "/ca");

  const auto own = ParseConfig(
      absl::StrCat("listen = \"127.0.0.1:1\"\nluns = [\"/own\"]\n", std::string(kVolume)), "file",
      shared);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_THAT(own->luns, ElementsAre("/own"));
  EXPECT_FALSE(own->tls.any()) << "a controller without a certificate needs no authority";
}

}  // namespace
}  // namespace reel::mdc
