// What the doctor makes of frames, of certificates, and of controllers that do not answer.
#include "tools/doctor/doctor_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tools/doctor/doctor_certificates.h"
#include "tools/pki/pki.h"
#include "tools/pki/pki_life.h"

namespace reel::tools {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Level = Finding::Level;

TEST(FrameFindingTest, BothEndsHaveToAgree) {
  const auto level = [](std::uint32_t mtu, std::uint32_t segment) {
    return FrameFinding("10.0.0.5:3260", {"eth1", mtu, segment}).level;
  };
  EXPECT_EQ(level(1500, 1448), Level::kOk);
  EXPECT_EQ(level(1500, 1428), Level::kOk) << "by IPv6";
  EXPECT_EQ(level(9000, 8948), Level::kOk);
  EXPECT_EQ(level(9000, 1448), Level::kWarning);
  EXPECT_EQ(FrameFinding("p:1", {"eth1", 9000, 8948, false}).level, Level::kFailure)
      << "a switch between drops them";
  EXPECT_EQ(FrameFinding("p:1", {"eth1", 9000, 8948, true}).level, Level::kOk);
  EXPECT_THAT(FrameFinding("p:1", {"eth1", 9000, 1448}).text, HasSubstr("of some 1500"));
}

class DoctorCertificatesTest : public ::testing::Test {
 protected:
  DoctorCertificatesTest() {
    std::filesystem::remove_all(pki_);
    EXPECT_TRUE(InitPki(pki_, 3650).ok());
  }
  ~DoctorCertificatesTest() override { std::filesystem::remove_all(pki_); }

  HostConfig ClientWith(std::uint32_t days) {
    const auto files = IssueCertificate(
        pki_, {.role = TlsRole::kClient, .name = "edit-1", .hosts = {}, .days = days});
    EXPECT_TRUE(files.ok()) << files.status();
    HostConfig config;
    config.client.emplace();
    config.client->tls = {.ca = pki_ + "/ca.crt", .cert = files->certificate, .key = files->key};
    return config;
  }

  const std::string pki_ = ::testing::TempDir() + "reel_doctor_pki";
};

TEST_F(DoctorCertificatesTest, SayUntilWhenTheyHold) {
  const auto findings = CertificateFindings(ClientWith(100));
  ASSERT_THAT(findings, SizeIs(2)) << "its own, and the authority's";
  EXPECT_EQ(findings[0].level, Level::kOk);
  EXPECT_THAT(findings[0].text, HasSubstr("of edit-1, until "));
  EXPECT_THAT(findings[0].text, AnyOf(HasSubstr("(99 days)"), HasSubstr("(100 days)")));
  EXPECT_EQ(findings[1].level, Level::kOk);
}

TEST_F(DoctorCertificatesTest, WarnAMonthBefore) {
  const auto findings = CertificateFindings(ClientWith(20));
  EXPECT_EQ(findings[0].level, Level::kWarning);
  EXPECT_THAT(findings[0].todo, HasSubstr("reeladm pki renew"));
}

TEST_F(DoctorCertificatesTest, ARevokedOneIsAFailure) {
  HostConfig config = ClientWith(100);
  const std::string kept = pki_ + "/kept";  // the holder's; the authority's are taken away
  std::filesystem::create_directory(kept);
  for (std::string* file : {&config.client->tls.cert, &config.client->tls.key}) {
    std::filesystem::copy(*file, kept);
    *file = kept + "/" + std::filesystem::path(*file).filename().string();
  }
  ASSERT_TRUE(RevokeCertificates(pki_, "edit-1", "").ok());
  const auto findings = CertificateFindings(config);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_THAT(findings[0].text, HasSubstr("is revoked"));
}

TEST_F(DoctorCertificatesTest, AKeyThatEveryoneReadsIsAFailure) {
  HostConfig config = ClientWith(100);
  std::filesystem::permissions(config.client->tls.key, std::filesystem::perms(0644));
  const auto findings = CertificateFindings(config);
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_THAT(findings[0].text, HasSubstr("keep it secret"));
}

TEST(ControllerFindingTest, NobodyThereIsAFailure) {
  HostConfig config;
  EXPECT_EQ(ControllerFindings(config, 100)[0].level, Level::kFailure);
  config.client.emplace();
  config.client->mdcs = {"127.0.0.1:1"};
  const auto findings = ControllerFindings(config, 100);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_THAT(findings[0].text, HasSubstr("refused"));
}

}  // namespace
}  // namespace reel::tools
