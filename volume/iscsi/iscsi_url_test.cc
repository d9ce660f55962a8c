#include "volume/iscsi/iscsi_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "volume/lun/lun.h"

namespace reel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPlain = "iscsi://10.0.0.1/iqn.2026-11.org.reelfs:a/3";

IscsiUrl Parsed(const std::string& text) {
  const auto url = ParseIscsiUrl(text);
  EXPECT_TRUE(url.ok()) << url.status();
  return url.value_or(IscsiUrl());
}

std::string ErrorOf(const std::string& text) {
  const auto url = ParseIscsiUrl(text);
  EXPECT_TRUE(absl::IsInvalidArgument(url.status())) << text << ": " << url.status();
  return std::string(url.status().message());
}

TEST(IscsiUrlTest, RecognisesUrls) {
  EXPECT_TRUE(IsIscsiUrl(kPlain));
  EXPECT_FALSE(IsIscsiUrl("/dev/sda"));
  EXPECT_FALSE(IsIscsiUrl("iscsi:/x"));
}

TEST(IscsiUrlTest, TakesAPlainOne) {
  const IscsiUrl url = Parsed(kPlain);
  EXPECT_THAT(url.portals, ElementsAre("10.0.0.1:3260"));
  EXPECT_EQ(url.target, "iqn.2026-11.org.reelfs:a");
  EXPECT_EQ(url.lun, 3U);
  EXPECT_EQ(url.user, "");
  EXPECT_EQ(url.header_digest, IscsiUrl::HeaderDigest::kAuto);
  EXPECT_EQ(url.timeout_ms, kIscsiCommandTimeoutMs);
  EXPECT_EQ(url.shown, kPlain);
}

TEST(IscsiUrlTest, TakesPortals) {
  const auto portals = [](const std::string& text) {
    return Parsed("iscsi://" + text + "/iqn.a:b/0").portals;
  };
  EXPECT_THAT(portals("san.example:860"), ElementsAre("san.example:860"));
  EXPECT_THAT(portals("[fe80::1]"), ElementsAre("[fe80::1]:3260"));
  EXPECT_THAT(portals("[::1]:3261"), ElementsAre("[::1]:3261"));
  EXPECT_THAT(portals("10.0.1.5,10.0.2.5:3261,[fe80::1],[fe80::2]:860"),
              ElementsAre("10.0.1.5:3260", "10.0.2.5:3261", "[fe80::1]:3260", "[fe80::2]:860"));
  EXPECT_THAT(portals("me%a,b;c@one;two"), ElementsAre("one:3260", "two:3260"));
  for (const char* bad : {"", ":3260", "host:", "host:0", "host:65536", "host:x", "host:+1", "a b",
                          "[::1", "[]", "[::1]x", "[host]:1", "h:1:2", "a,", ",a", "a,,b", "a, b",
                          "fe80::1,a", "[fe80::1,fe80::2]"}) {
    ErrorOf(std::string("iscsi://") + bad + "/iqn.a:b/0");
  }
  EXPECT_THAT(ErrorOf("iscsi://good,bad:x/iqn.a:b/0"), HasSubstr("'bad:x' is none"));
  EXPECT_THAT(ErrorOf("iscsi://a,b,a:3260/iqn.a:b/0"), HasSubstr("a:3260 twice"));
  EXPECT_EQ(portals("a,b,c,d,e,f,g,h").size(), kMaxIscsiPortals);
  EXPECT_THAT(ErrorOf("iscsi://a,b,c,d,e,f,g,h,i/iqn.a:b/0"), HasSubstr("more than 8"));
}

TEST(IscsiUrlTest, TakesOptions) {
  const IscsiUrl url =
      Parsed(std::string(kPlain) + "?header_digest=crc32c&timeout_ms=1500&initiator=iqn.x:y");
  EXPECT_EQ(url.header_digest, IscsiUrl::HeaderDigest::kCrc32c);
  EXPECT_EQ(url.timeout_ms, 1500U);
  EXPECT_EQ(InitiatorName(url), "iqn.x:y");
  EXPECT_EQ(Parsed(std::string(kPlain) + "?header_digest=none").header_digest,
            IscsiUrl::HeaderDigest::kNone);
  for (const char* bad :
       {"?digest=x", "?header_digest=md5", "?header_digest", "?timeout_ms=1", "?timeout_ms=9999999",
        "?timeout_ms=x", "?initiator=me", "?chap_secret_file=/x"}) {
    ErrorOf(std::string(kPlain) + bad);
  }
}

TEST(IscsiUrlTest, RefusesBadUrls) {
  EXPECT_THAT(ErrorOf("iscsi://host/iqn.a:b"), HasSubstr("/TARGET/LUN"));
  EXPECT_THAT(ErrorOf("iscsi://host/iqn.a:b/1/2"), HasSubstr("/TARGET/LUN"));
  EXPECT_THAT(ErrorOf("iscsi://host/target/1"), HasSubstr("iqn."));
  for (const char* lun : {"", "x", "-1", "+1", "16384", "99999999999"}) {
    EXPECT_THAT(ErrorOf(std::string("iscsi://host/iqn.a:b/") + lun), HasSubstr("0 to 16383"));
  }
  EXPECT_THAT(ErrorOf("iscsi://host/iqn.a:b/1\n"), Not(HasSubstr("\n")));
  ErrorOf("iscsi://@host/iqn.a:b/1");
  ErrorOf("iscsi://host/iqn." + std::string(300, 'a') + "/1");
  ErrorOf("iscsi://host/iqn.a:b/1?initiator=iqn." + std::string(3000, 'a'));
}

TEST(IscsiUrlTest, NeverShowsASecret) {
  const IscsiUrl url = Parsed("iscsi://me%s3cr?t@host/iqn.a:b/1");
  EXPECT_EQ(url.user, "me");
  EXPECT_EQ(url.secret, "s3cr?t");
  EXPECT_EQ(url.shown, "iscsi://me%***@host/iqn.a:b/1");
  EXPECT_EQ(LunNameForPeople("iscsi://me%s3cr?t@host/iqn.a:b/1"), url.shown);
  EXPECT_EQ(LunNameForPeople("/dev/100%a@b"), "/dev/100%a@b");
  // Nor where the URL is no good.
  for (const char* bad :
       {"iscsi://me%s3cr3t@host", "iscsi://me%s3cr3t", "iscsi://me%s3/cr3t@h/iqn.a:b/1",
        "iscsi://me%a@s3cr3t@ho st/iqn.a:b/1", "iscsi://%s3cr3t@h/iqn.a:b/1",
        "iscsi://me%s3cr3t@h/iqn.a:b/1?chap_secret_env=X"}) {
    EXPECT_THAT(ErrorOf(bad), AllOf(Not(HasSubstr("s3cr3t")), Not(HasSubstr("cr3t")))) << bad;
  }
}

TEST(IscsiUrlTest, FindsTheSecretAtItsPlace) {
  EXPECT_EQ(*ChapSecret(Parsed(kPlain)), "");
  EXPECT_EQ(*ChapSecret(Parsed("iscsi://me%abc@host/iqn.a:b/1")), "abc");

  setenv("REEL_TEST_SECRET", "of the variable", 1);
  EXPECT_EQ(*ChapSecret(Parsed("iscsi://me@h/iqn.a:b/1?chap_secret_env=REEL_TEST_SECRET")),
            "of the variable");
  unsetenv("REEL_TEST_SECRET");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ChapSecret(Parsed("iscsi://me@h/iqn.a:b/1?chap_secret_env=REEL_TEST_SECRET")).status()));

  const std::string path = testing::TempDir() + "reel-secret";
  std::ofstream(path) << "of the file\nand more\n";
  EXPECT_EQ(*ChapSecret(Parsed("iscsi://me@h/iqn.a:b/1?chap_secret_file=" + path)), "of the file");
  std::ofstream(path, std::ios::trunc) << std::string(300, 'x') << "\n";
  const auto too_long = ChapSecret(Parsed("iscsi://me@h/iqn.a:b/1?chap_secret_file=" + path));
  EXPECT_TRUE(absl::IsInvalidArgument(too_long.status()));
  EXPECT_THAT(std::string(too_long.status().message()), Not(HasSubstr("xxx")));
  std::remove(path.c_str());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ChapSecret(Parsed("iscsi://me@h/iqn.a:b/1?chap_secret_file=" + path)).status()));

  setenv("REELFS_CHAP_SECRET", "of all", 1);
  EXPECT_EQ(*ChapSecret(Parsed("iscsi://me@h/iqn.a:b/1")), "of all");
  unsetenv("REELFS_CHAP_SECRET");
}

}  // namespace
}  // namespace reel
