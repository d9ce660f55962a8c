// A set on disk: programs read what it writes, it grows, and it loses nothing that is there.
#include "tools/setup/setup_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "client/mount/mount_options.h"
#include "mdc/daemon/config.h"
#include "nlohmann/json.hpp"
#include "proto/tls/tls.h"
#include "tools/admin/admin_config.h"
#include "tools/lib/cli.h"
#include "tools/lib/text_file.h"
#include "tools/lib/volume_toml.h"
#include "tools/pki/pki.h"
#include "tools/pki/pki_life.h"
#include "tools/setup/setup_steps.h"

namespace reel::tools {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using State = SetupOutcome::File::State;

class SetupDirectoryTest : public ::testing::Test {
 protected:
  SetupDirectoryTest() {
    std::filesystem::remove_all(directory_);
    plan_ = {.volume = "reel",
             .controllers = {*ParseController("mdc1.lan,10.0.0.1")},
             .clients = {"edit-1"},
             .admins = {},
             .luns = {"/dev/disk/by-id/wwn-*"},
             .metadata_luns = {"meta1"},
             .data_luns = {"data1"},
             .etc = directory_ + "/hosts/mdc1.lan"};  // where a test finds the certificates
  }
  ~SetupDirectoryTest() override { std::filesystem::remove_all(directory_); }

  // With what is stored there, as the command does it.
  absl::StatusOr<SetupOutcome> Write(bool force = false, std::vector<std::string> renew = {}) {
    const auto stored = ReadSetupPlan(directory_);
    if (!stored.ok()) return stored.status();
    request_ = {.directory = directory_,
                .stored = stored->value_or(SetupPlan()),
                .plan = plan_,
                .renew = std::move(renew),
                .force = force};
    return WriteSetup(request_);
  }
  std::string In(const std::string& path) const { return directory_ + "/" + path; }
  std::string Text(const std::string& path) const { return ReadTextFile(In(path)).value_or(""); }
  static State StateOf(const SetupOutcome& outcome, const std::string& path) {
    for (const auto& file : outcome.files) {
      if (file.path == path) return file.state;
    }
    ADD_FAILURE() << path << " is not of the set";
    return State::kUnchanged;
  }

  const std::string directory_ = ::testing::TempDir() + "reel_setup_test";
  SetupPlan plan_;
  SetupRequest request_;
};

TEST_F(SetupDirectoryTest, ProgramsReadWhatItWrites) {
  const auto outcome = Write();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto mdc = mdc::ReadConfig(In("hosts/mdc1.lan/mdc.toml"));
  ASSERT_TRUE(mdc.ok()) << mdc.status();
  EXPECT_EQ(mdc->listen, "[::]:7440");
  EXPECT_EQ(mdc->advertise, "mdc1.lan:7440");
  EXPECT_THAT(mdc->volumes[0].luns, ElementsAre("/dev/disk/by-id/wwn-*"));
  const auto tls = LoadTls(mdc->tls, TlsRole::kMdc);
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(HostsOf(*ParseCertificates((*tls)->cert_pem)->front()), "mdc1.lan, 10.0.0.1");

  client::MountOptions mount;
  mount.config_file = In("hosts/edit-1/client.toml");
  const absl::Status loaded = client::LoadClientConfig(mount);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_THAT(mount.mdcs, ElementsAre("mdc1.lan:7440"));
  EXPECT_THAT(mount.luns, ElementsAre("/dev/disk/by-id/wwn-*"));

  const auto admin = CompleteAdminConfig({}, In("hosts/mdc1.lan/reeladm.toml"));
  ASSERT_TRUE(admin.ok()) << admin.status();
  EXPECT_EQ(admin->volume, "reel");
  EXPECT_TRUE(LoadTls(admin->tls, TlsRole::kAdmin).ok());

  const auto volume = ReadVolumeToml(In("hosts/mdc1.lan/volume.toml"));
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ(volume->pools.size(), 2u);
  EXPECT_THAT(*LunPatterns({}, In("hosts/mdc1.lan/volume.toml")),
              ElementsAre("/dev/disk/by-id/wwn-*"));
}

TEST_F(SetupDirectoryTest, KeysAreTheirOwnersAlone) {
  ASSERT_TRUE(Write().ok());
  const auto mode = [&](const std::string& path) {
    struct stat facts {};
    EXPECT_EQ(stat(In(path).c_str(), &facts), 0) << path;
    return facts.st_mode & 07777;
  };
  EXPECT_EQ(mode(""), 0700u);
  EXPECT_EQ(mode("pki/ca.key"), 0600u);
  EXPECT_EQ(mode("hosts/edit-1/tls/client.key"), 0600u);
  EXPECT_EQ(mode("hosts/edit-1/reelfs.toml"), 0644u);
  EXPECT_FALSE(std::filesystem::exists(In("hosts/edit-1/tls/admin.key")));
}

TEST_F(SetupDirectoryTest, ASecretInAUrlIsItsOwnersAlone) {
  plan_.luns = {"iscsi://user%secret@10.0.0.5/iqn.x/1"};
  ASSERT_TRUE(Write().ok());
  struct stat facts {};
  ASSERT_EQ(stat(In("hosts/edit-1/reelfs.toml").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
}

TEST_F(SetupDirectoryTest, ASecondRunChangesNothing) {
  ASSERT_TRUE(Write().ok());
  const std::string certificate = Text("hosts/edit-1/tls/client.crt");
  const auto again = Write();
  ASSERT_TRUE(again.ok()) << again.status();
  for (const auto& file : again->files) EXPECT_EQ(file.state, State::kUnchanged) << file.path;
  EXPECT_EQ(Text("hosts/edit-1/tls/client.crt"), certificate);
}

TEST_F(SetupDirectoryTest, GrowsUnderTheSameAuthority) {
  ASSERT_TRUE(Write().ok());
  const std::string ca = Text("pki/ca.crt");
  const std::string certificate = Text("hosts/edit-1/tls/client.crt");
  plan_.controllers.push_back(*ParseController("mdc2.lan"));
  plan_.clients.push_back("edit-2");
  const auto grown = Write();
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_EQ(Text("pki/ca.crt"), ca);
  EXPECT_EQ(Text("hosts/edit-2/tls/ca.crt"), ca);
  EXPECT_EQ(Text("hosts/edit-1/tls/client.crt"), certificate);
  EXPECT_EQ(StateOf(*grown, "hosts/edit-1/reelfs.toml"), State::kChanged)
      << "clients have to know the second controller";
  EXPECT_EQ(StateOf(*grown, "hosts/mdc1.lan/mdc.toml"), State::kUnchanged);
  EXPECT_EQ(StateOf(*grown, "hosts/mdc2.lan/mdc.toml"), State::kNew);
  EXPECT_EQ(**ReadSetupPlan(directory_), plan_);
}

TEST_F(SetupDirectoryTest, LosesNothingThatWasChangedByHand) {
  ASSERT_TRUE(Write().ok());
  const std::string path = In("hosts/mdc1.lan/mdc.toml");
  std::ofstream(path, std::ios::app) << "# mine\n";
  const std::string mine = Text("hosts/mdc1.lan/mdc.toml");
  plan_.clients.push_back("edit-2");
  const auto refused = Write();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(path + " was changed by hand"));
  EXPECT_EQ(Text("hosts/mdc1.lan/mdc.toml"), mine);
  EXPECT_FALSE(std::filesystem::exists(In("hosts/edit-2"))) << "nothing at all was written";
  ASSERT_TRUE(Write(/*force=*/true).ok());
  EXPECT_THAT(Text("hosts/mdc1.lan/mdc.toml"), Not(HasSubstr("# mine")));
}

TEST_F(SetupDirectoryTest, IsNoOtherDirectory) {
  std::filesystem::create_directories(directory_);
  std::ofstream(In("letter.txt")) << "dear\n";
  EXPECT_THAT(std::string(Write(/*force=*/true).status().message()),
              HasSubstr("holds something, and no setup.toml"));
}

TEST_F(SetupDirectoryTest, NeverMakesASecondAuthority) {
  ASSERT_TRUE(Write().ok());
  std::filesystem::remove(In("pki/ca.key"));
  EXPECT_THAT(std::string(Write(/*force=*/true).status().message()), HasSubstr("put them back"));
}

TEST_F(SetupDirectoryTest, RenewsAHostsCertificates) {
  ASSERT_TRUE(Write().ok());
  const std::string client = Text("hosts/edit-1/tls/client.crt");
  const std::string controller = Text("hosts/mdc1.lan/tls/mdc.crt");
  const auto renewed = Write(/*force=*/false, {"edit-1"});
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_NE(Text("hosts/edit-1/tls/client.crt"), client);
  EXPECT_EQ(Text("hosts/mdc1.lan/tls/mdc.crt"), controller);
  EXPECT_TRUE(renewed->Touches("edit-1"));
  EXPECT_FALSE(renewed->Touches("mdc1.lan"));
}

TEST_F(SetupDirectoryTest, CertificatesOfASetAreRenewedAndRevokedWhereTheyLie) {
  ASSERT_TRUE(Write().ok());
  const std::string client = Text("hosts/edit-1/tls/client.crt");
  const auto renewed = RenewCertificates(In("pki"), {"edit-1", "mdc1.lan"}, 30, 90);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->size(), 3u) << "of the client, and the controller's two";
  EXPECT_NE(Text("hosts/edit-1/tls/client.crt"), client);
  const auto mdc = mdc::ReadConfig(In("hosts/mdc1.lan/mdc.toml"));
  ASSERT_TRUE(mdc.ok()) << mdc.status();
  EXPECT_TRUE(LoadTls(mdc->tls, TlsRole::kMdc).ok()) << "with the key that it had";

  ASSERT_TRUE(RevokeCertificates(In("pki"), "edit-1", "").ok());
  EXPECT_EQ(Text("hosts/edit-1/tls/client.key"), "");
  const auto outcome = Write();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(StateOf(*outcome, "hosts/mdc1.lan/tls/ca.crl"), State::kNew);
  EXPECT_EQ(Text("hosts/mdc1.lan/tls/ca.crl"), Text("pki/ca.crl"));
  EXPECT_EQ(StateOf(*Write(), "hosts/mdc1.lan/tls/ca.crl"), State::kUnchanged);
}

TEST_F(SetupDirectoryTest, ACertificateForOtherNamesIsNoticed) {
  ASSERT_TRUE(Write().ok());
  plan_.controllers = {*ParseController("mdc1.lan,10.0.0.9")};
  EXPECT_THAT(std::string(Write().status().message()),
              HasSubstr("is for mdc1.lan, 10.0.0.1, and not for mdc1.lan, 10.0.0.9"));
  ASSERT_TRUE(Write(/*force=*/false, {"mdc1.lan"}).ok());
}

TEST_F(SetupDirectoryTest, SaysWhatToCopyAndRun) {
  plan_.etc = kEtc;
  const auto outcome = Write();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const std::string text = SetupText(request_, *outcome);
  EXPECT_THAT(text, HasSubstr("hosts/edit-1 -c . | ssh root@edit-1 "));
  EXPECT_THAT(text, HasSubstr("on mdc1.lan: reel-label write meta1 PATH"));
  EXPECT_THAT(text, HasSubstr("on mdc1.lan: mkfs.reelfs --config /etc/reelfs/volume.toml"));
  EXPECT_THAT(text, HasSubstr("on edit-1: mkdir -p /mnt/reel && mount -t reelfs reel /mnt/reel"));
  const auto json = SetupJson(request_, *outcome);
  EXPECT_EQ(json["hosts"][1]["host"], "edit-1");
  EXPECT_EQ(json["hosts"][1]["roles"], std::vector<std::string>{"client"});

  plan_.clients.push_back("edit-2");
  const auto grown = Write();
  ASSERT_TRUE(grown.ok()) << grown.status();
  std::vector<std::string> runs;
  for (const SetupStep& step : NextSteps(request_)) {
    if (step.run.find("mount -t") != step.run.npos) {
      EXPECT_THAT(step.hosts, ElementsAre("edit-2"));
    }
    runs.push_back(step.run.substr(0, 4));
  }
  EXPECT_THAT(runs, Not(Contains("mkfs"))) << "the volume is there";
}

}  // namespace
}  // namespace reel::tools
