#include "client/mount/mount_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "client/mount/remount.h"

namespace reel::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

MountOptions Parsed(const std::vector<std::string>& arguments, bool as_root = true) {
  const absl::StatusOr<MountOptions> options = ParseMountOptions(arguments, as_root);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.value_or(MountOptions{});
}

MountOptions WithOptions(const std::string& list) {
  return Parsed({"VOL", "/mnt", "-o", list});
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  return std::string(ParseMountOptions(arguments, true).status().message());
}

TEST(MountOptions, PlacesAndDefaults) {
  const MountOptions options = Parsed({"VOL", "/mnt", "-o", "mdc=a"});
  EXPECT_EQ(options.volume, "VOL");
  EXPECT_EQ(options.mount_point, "/mnt");
  EXPECT_EQ(options.cache, CacheChoice::kAuto);
  EXPECT_EQ(options.soft_timeout_ms, 0u);
  EXPECT_TRUE(options.direct_io_mmap);
  EXPECT_FALSE(options.foreground);
}

TEST(MountOptions, ControllersInAllTheirForms) {
  const struct {
    const char* list;
    std::vector<std::string> mdcs;
  } rows[] = {
      {"mdc=a", {"a:7440"}},
      {"mdc=a:1", {"a:1"}},
      {"mdc=a,b,c:9", {"a:7440", "b:7440", "c:9"}},
      {"mdc=a;b:2", {"a:7440", "b:2"}},
      {"mdc=a,ro,mdc=b", {"a:7440", "b:7440"}},
      {"mdc=10.0.0.1,10.0.0.2,luns=/x", {"10.0.0.1:7440", "10.0.0.2:7440"}},
      {"mdc=fe80::1", {"[fe80::1]:7440"}},
      {"mdc=[fe80::1],[fe80::2]:5", {"[fe80::1]:7440", "[fe80::2]:5"}},
  };
  for (const auto& row : rows) EXPECT_EQ(WithOptions(row.list).mdcs, row.mdcs) << row.list;
}

// libfuse refuses those that it does not know, and with them the mount.
TEST(MountOptions, LibfuseGetsOnlyItsOptions) {
  const MountOptions options =
      WithOptions("nodiratime,strictatime,nosymfollow,lazytime,silent,acl,nosuid,nodev");
  EXPECT_THAT(options.kernel_options, UnorderedElementsAre("nosuid", "nodev", "allow_other"));
  EXPECT_EQ(options.flags.set & (MS_NODIRATIME | MS_STRICTATIME | MS_NOSUID),
            MS_NODIRATIME | MS_STRICTATIME | MS_NOSUID);
}

TEST(MountFlags, TheLastFlagCounts) {
  MountFlags flags;
  for (const char* word : {"ro", "nosuid", "noatime", "rw", "strictatime"}) {
    EXPECT_TRUE(flags.Apply(word));
  }
  EXPECT_FALSE(flags.Apply("soft"));
  EXPECT_EQ(flags.On(MS_RDONLY | MS_NODEV | MS_RELATIME),
            unsigned{MS_NOSUID | MS_NODEV | MS_STRICTATIME});
}

TEST(Remount, ARemountChangesTheNamedOptions) {
  const MountOptions now = WithOptions("mdc=a,b,luns=/x,soft,noatime");
  const auto wanted = Remounted(now,
                                "rw,remount,mdc=a,mdc=b,luns=/x,soft,ro,relatime,user_id=0,"
                                "default_permissions,allow_other");
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_TRUE(wanted->read_only);
  EXPECT_FALSE(wanted->notes_reads());
  const auto writable = Remounted(*wanted, "remount,rw");
  ASSERT_TRUE(writable.ok());
  EXPECT_TRUE(writable->notes_listings());
  EXPECT_EQ(writable->soft_timeout_ms, kDefaultSoftTimeoutMs);
  const auto other = Remounted(*writable, "remount,strictatime,timeout=500,flush_on_close");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->NotedAtime(), AtimePolicy::kStrict);
  EXPECT_EQ(other->soft_timeout_ms, 500u);
  EXPECT_TRUE(other->flush_on_close);
  const auto back = Remounted(
      *other,
      "remount,relatime,hard,noflush_on_close,readahead=1M,sequence_ahead=2M,writebehind=0");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->NotedAtime(), AtimePolicy::kRelative);
  EXPECT_EQ(back->soft_timeout_ms, 0u);
  EXPECT_FALSE(back->flush_on_close);
  EXPECT_EQ(back->read_ahead_bytes, 1u << 20);
  EXPECT_EQ(back->sequence_ahead_bytes, 2u << 20);
  EXPECT_EQ(back->write_behind_bytes, 0u);
}

TEST(Remount, ARemountNamesUnchangeableOptions) {
  const MountOptions now = WithOptions("mdc=a,luns=/x");
  const std::pair<const char*, const char*> rows[] = {
      {"mdc=b", "mdc"},       {"luns=/y", "luns"},    {"cache=page", "cache"},
      {"uring=on", "uring"},  {"log=/y", "log"},      {"noallow_other", "allow_other"},
      {"dirsync", "dirsync"}, {"awake=off", "awake"}, {"frobnicate", "frobnicate"}};
  for (const auto& [list, named] : rows) {
    EXPECT_THAT(std::string(Remounted(now, list).status().message()), HasSubstr(named)) << list;
  }
}

TEST(MountOptions, Table) {
  EXPECT_THAT(WithOptions("luns=/a/*,luns=/b").luns, ElementsAre("/a/*", "/b"));
  EXPECT_EQ(WithOptions("cache=page").cache, CacheChoice::kPageCache);
  EXPECT_EQ(WithOptions("cache=direct").cache, CacheChoice::kDirect);
  EXPECT_EQ(WithOptions("threads=3").threads, 3u);
  EXPECT_EQ(WithOptions("readahead=8M").read_ahead_bytes, 8u << 20);
  EXPECT_EQ(WithOptions("readahead=0").read_ahead_bytes, 0u);
  EXPECT_EQ(WithOptions("ro").sequence_ahead_bytes, 256u << 20);
  EXPECT_EQ(WithOptions("sequence_ahead=64M").sequence_ahead_bytes, 64u << 20);
  EXPECT_EQ(WithOptions("sequence_ahead=0").sequence_ahead_bytes, 0u);
  EXPECT_EQ(WithOptions("ro").write_behind_bytes, 64u << 20);
  EXPECT_EQ(WithOptions("writebehind=1M").write_behind_bytes, 1u << 20);
  EXPECT_EQ(WithOptions("writebehind=0").write_behind_bytes, 0u);
  EXPECT_FALSE(WithOptions("ro").flush_on_close);
  EXPECT_TRUE(WithOptions("flush_on_close").flush_on_close);
  EXPECT_FALSE(WithOptions("noexec").durable_names);
  EXPECT_TRUE(WithOptions("dirsync,nodev").durable_names);
  EXPECT_EQ(WithOptions("soft").soft_timeout_ms, kDefaultSoftTimeoutMs);
  EXPECT_EQ(WithOptions("timeout=500,soft").soft_timeout_ms, 500u);
  EXPECT_EQ(WithOptions("ro").retry_minutes, std::nullopt);
  EXPECT_EQ(WithOptions("retry=0").retry_minutes, 0U);
  EXPECT_EQ(WithOptions("retry=10000").retry_minutes, 10'000U);
  EXPECT_TRUE(WithOptions("_netdev").netdev);
  EXPECT_EQ(WithOptions("log=/l,config=/c").log_file, "/l");
  EXPECT_FALSE(WithOptions("nommap").direct_io_mmap);
  EXPECT_EQ(WithOptions("ro").uring, UringChoice::kAuto);
  EXPECT_EQ(WithOptions("uring=auto").uring, UringChoice::kAuto);
  EXPECT_EQ(WithOptions("uring=on").uring, UringChoice::kOn);
  EXPECT_EQ(WithOptions("uring=off").uring, UringChoice::kOff);
  EXPECT_EQ(WithOptions("ro").awake, AwakeChoice::kAuto);
  EXPECT_EQ(WithOptions("awake=on").awake, AwakeChoice::kOn);
  EXPECT_EQ(WithOptions("awake=off").awake, AwakeChoice::kOff);
  EXPECT_TRUE(WithOptions("rw").keep_names);
  EXPECT_FALSE(WithOptions("nokeepnames").keep_names);
  EXPECT_TRUE(WithOptions("ro").read_only);
  EXPECT_FALSE(WithOptions("ro,rw").read_only);
  EXPECT_TRUE(Parsed({"VOL", "/mnt", "-fvr"}).foreground);
  EXPECT_TRUE(Parsed({"-r", "VOL", "/mnt"}).read_only);
  EXPECT_EQ(Parsed({"-h"}).action, MountOptions::Action::kHelp);
  EXPECT_EQ(Parsed({"-V"}).action, MountOptions::Action::kVersion);
}

TEST(MountOptions, TheKernelGetsItsOptions) {
  EXPECT_EQ(WithOptions("rw").NotedAtime(), AtimePolicy::kRelative);
  EXPECT_TRUE(WithOptions("rw").notes_listings());
  EXPECT_FALSE(WithOptions("ro").notes_reads());
  EXPECT_FALSE(WithOptions("noatime").notes_reads());
  EXPECT_EQ(WithOptions("strictatime,nodiratime").NotedAtime(), AtimePolicy::kStrict);
  EXPECT_TRUE(WithOptions("strictatime,nodiratime").notes_reads());
  EXPECT_FALSE(WithOptions("strictatime,nodiratime").notes_listings());
  const auto words = [](const MountOptions& options, bool squashed = false) {
    return options.KernelOptions(squashed, /*exported_read_only=*/false);
  };
  EXPECT_THAT(words(WithOptions("ro,nosuid,noatime")),
              UnorderedElementsAre("nosuid", "noatime", "dev", "ro", "allow_other"));
  EXPECT_THAT(words(WithOptions("noallow_other")), ElementsAre("suid", "dev"));
  EXPECT_THAT(words(Parsed({"VOL", "/mnt"}, /*as_root=*/false)), ElementsAre());
  // A squashed host's are not believed, unless its administrator says so.
  EXPECT_THAT(words(WithOptions("noallow_other"), /*squashed=*/true),
              ElementsAre("nosuid", "nodev"));
  EXPECT_THAT(words(WithOptions("noallow_other,suid"), /*squashed=*/true),
              ElementsAre("suid", "nodev"));
  EXPECT_THAT(WithOptions("noallow_other").KernelOptions(false, /*exported_read_only=*/true),
              ElementsAre("suid", "dev", "ro"));
}

TEST(MountOptions, OptionsForOtherProgramsAreAccepted) {
  EXPECT_EQ(WithOptions("user=somebody,soft").soft_timeout_ms, kDefaultSoftTimeoutMs);
  const MountOptions options = WithOptions(
      "defaults,_netdev,nofail,noauto,x-systemd.automount,x-systemd.idle-timeout=1min,comment=x,"
      "mdc=a");
  EXPECT_THAT(options.mdcs, ElementsAre("a:7440"));
  EXPECT_THAT(Parsed({"VOL", "/mnt", "-n", "-s", "-t", "reelfs", "-omdc=a"}).mdcs,
              ElementsAre("a:7440"));
}

TEST(MountOptions, ErrorsNameTheWord) {
  EXPECT_THAT(ErrorOf({"VOL"}), HasSubstr("VOLUME DIR"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "more"}), HasSubstr("VOLUME DIR"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o"}), HasSubstr("-o"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-x"}), HasSubstr("-x"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "colour"}), HasSubstr("colour"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "mdc=a,ro,b"}), HasSubstr("unknown option b"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "colour=red"}), HasSubstr("colour="));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "cache=fast"}), HasSubstr("cache=fast"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "uring=yes"}),
              HasSubstr("uring=yes: wants auto, on or off"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "awake=1"}), HasSubstr("awake=1"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "threads=0"}), HasSubstr("threads=0"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "mdc=a:0"}), HasSubstr("a:0"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "mdc=a:99999"}), HasSubstr("a:99999"));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "mdc="}), HasSubstr("mdc="));
  EXPECT_THAT(ErrorOf({"VOL", "/mnt", "-o", "luns="}), HasSubstr("luns="));
}

TEST(ClientConfig, TheFileFillsInMissingOptions) {
  MountOptions options;
  ASSERT_TRUE(ApplyClientConfig("mdc = ['a', 'b:2']\nluns = ['/x/*']\n", "c.toml", options).ok());
  EXPECT_THAT(options.mdcs, ElementsAre("a:7440", "b:2"));
  EXPECT_THAT(options.luns, ElementsAre("/x/*"));
}

TEST(ClientConfig, TlsFilesOneByOne) {
  MountOptions options = WithOptions("tls_cert=/mine.crt");
  ASSERT_TRUE(
      ApplyClientConfig("tls_ca = '/ca'\ntls_cert = '/c'\ntls_key = '/k'\n", "c", options).ok());
  EXPECT_EQ(options.tls.ca, "/ca");
  EXPECT_EQ(options.tls.cert, "/mine.crt");
  EXPECT_EQ(options.tls.key, "/k");
}

TEST(ClientConfig, TheCommandLineComesFirst) {
  MountOptions options = WithOptions("mdc=m,luns=/l");
  ASSERT_TRUE(ApplyClientConfig("mdc = ['a']\nluns = ['/x/*']\n", "c.toml", options).ok());
  EXPECT_THAT(options.mdcs, ElementsAre("m:7440"));
  EXPECT_THAT(options.luns, ElementsAre("/l"));
}

TEST(ClientConfig, ErrorsNameTheLine) {
  const auto error = [](const char* text) {
    MountOptions options;
    return std::string(ApplyClientConfig(text, "c.toml", options).message());
  };
  EXPECT_THAT(error("\nmdcs = ['a']\n"), HasSubstr("c.toml:2: unknown key \"mdcs\""));
  EXPECT_THAT(error("luns = [1]\n"), HasSubstr("c.toml:1: luns"));
  EXPECT_THAT(error("luns = 'x'\n"), HasSubstr("c.toml:1: luns"));
  EXPECT_THAT(error("\n\nluns = [\n"), HasSubstr("c.toml:"));
  EXPECT_THAT(error("mdc = ['a:0']\n"), HasSubstr("a:0"));
}

TEST(ClientConfig, WhatTheHostSharesComesLast) {
  SharedConfig shared;
  shared.mdcs = {{"a", "r:1: "}, {"b:2", "r:1: "}};
  shared.luns = {{"/shared/*", "r:2: "}};
  shared.tls_ca = {"/ca", "r:3: "};
  MountOptions bare;
  ASSERT_TRUE(ApplySharedConfig(shared, bare).ok());
  EXPECT_THAT(bare.mdcs, ElementsAre("a:7440", "b:2"));
  EXPECT_THAT(bare.luns, ElementsAre("/shared/*"));
  EXPECT_FALSE(bare.tls.any()) << "a client without a certificate goes without TLS";

  MountOptions own = WithOptions("mdc=m,luns=/l,tls_cert=/c,tls_key=/k");
  ASSERT_TRUE(ApplySharedConfig(shared, own).ok());
  EXPECT_THAT(own.mdcs, ElementsAre("m:7440"));
  EXPECT_THAT(own.luns, ElementsAre("/l"));
  EXPECT_EQ(own.tls.ca, "/ca");

  shared.mdcs = {{"a:0", "r:7: "}};
  MountOptions wrong;
  EXPECT_THAT(std::string(ApplySharedConfig(shared, wrong).message()), HasSubstr("r:7: "));
}

TEST(ClientConfig, ANamedFileMustBeThere) {
  MountOptions options = WithOptions("mdc=a,luns=/l,config=/nonexistent/client.toml");
  EXPECT_THAT(std::string(LoadClientConfig(options).message()),
              HasSubstr("/nonexistent/client.toml"));
}

}  // namespace
}  // namespace reel::client
