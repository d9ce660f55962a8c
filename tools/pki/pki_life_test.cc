// Certificates after their issue: listed, renewed in place, revoked.
#include "tools/pki/pki_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "proto/tls/revocations.h"
#include "proto/tls/tls.h"
#include "proto/tls/watched_tls.h"
#include "tools/pki/pki.h"

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class PkiLifeTest : public ::testing::Test {
 protected:
  PkiLifeTest() {
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_);
    EXPECT_TRUE(InitPki(pki_, 100).ok());
  }
  ~PkiLifeTest() override { std::filesystem::remove_all(base_); }

  TlsFiles Issue(TlsRole role, const std::string& name, std::uint32_t days,
                 const std::string& path = "") {
    const auto files = IssueCertificate(pki_, {role, name, {"localhost"}, days, path});
    EXPECT_TRUE(files.ok()) << files.status();
    return {.ca = pki_ + "/ca.crt", .cert = files->certificate, .key = files->key};
  }
  std::vector<IssuedCertificate> List() {
    const auto list = ListCertificates(pki_);
    EXPECT_TRUE(list.ok()) << list.status();
    return list.value_or(std::vector<IssuedCertificate>{});
  }
  // NAME/ROLE of those that a test of `which` holds for.
  std::vector<std::string> Names(bool (*which)(const IssuedCertificate&)) {
    std::vector<std::string> names;
    for (const IssuedCertificate& one : List()) {
      if (which(one)) names.push_back(one.name + "/" + one.role);
    }
    return names;
  }
  TlsPeer PeerIn(const std::string& file) {
    const auto peer = PeerOf(TextOf(file));
    EXPECT_TRUE(peer.ok()) << peer.status();
    return peer.value_or(TlsPeer{});
  }
  bool IsRevoked(const TlsPeer& peer) {
    const auto revocations = ReadRevocations(pki_ + "/ca.crt", TextOf(pki_ + "/ca.crt"));
    EXPECT_TRUE(revocations.ok()) << revocations.status();
    return revocations.ok() && revocations->Contains(peer);
  }

  const std::string base_ = ::testing::TempDir() + "reel_pki_life_test";
  const std::string pki_ = base_ + "/pki";
};

TEST_F(PkiLifeTest, AListShowsAllThatWasIssuedWhereverItLies) {
  Issue(TlsRole::kClient, "ws1", 10);
  Issue(TlsRole::kMdc, "mdc1", 20, base_ + "/elsewhere");
  const auto list = List();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].role, "authority");
  EXPECT_EQ(list[1].name, "mdc1");
  EXPECT_EQ(list[1].hosts, "localhost");
  EXPECT_EQ(list[1].file, "");
  EXPECT_EQ(list[2].name, "ws1");
  EXPECT_EQ(list[2].role, "client");
  EXPECT_EQ(list[2].file, pki_ + "/ws1.crt");
  EXPECT_EQ(list[2].serial, PeerIn(pki_ + "/ws1.crt").serial);
  EXPECT_EQ(list[2].serial.size(), 32u);
  EXPECT_NEAR(static_cast<double>(list[2].seconds_left), 10 * 86'400.0, 60);
  EXPECT_TRUE(list[2].in_use());
}

// What an earlier release issued has no copy.
TEST_F(PkiLifeTest, ACertificateWithoutACopyIsListedAndRevokedToo) {
  Issue(TlsRole::kClient, "ws1", 10);
  std::filesystem::remove_all(pki_ + "/issued");
  const TlsPeer peer = PeerIn(pki_ + "/ws1.crt");
  EXPECT_EQ(List().size(), 2u);
  ASSERT_TRUE(RevokeCertificates(pki_, "ws1", "").ok());
  EXPECT_TRUE(IsRevoked(peer));
}

TEST_F(PkiLifeTest, ARenewedCertificateIsUsedWithTheOldKeyAndWithoutARestart) {
  const TlsFiles files = Issue(TlsRole::kMdc, "mdc1", 10);
  const auto watched = WatchedTls::Load(files, TlsRole::kMdc);
  ASSERT_TRUE(watched.ok()) << watched.status();
  const auto before = (*watched)->Current();
  EXPECT_EQ((*watched)->Current(), before) << "nothing has changed";
  const std::string key = TextOf(files.key);

  const auto renewed = RenewCertificates(pki_, {"mdc1"}, 30, 90);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  ASSERT_EQ(renewed->size(), 1u);
  EXPECT_EQ(renewed->front().file, files.cert);
  EXPECT_EQ(TextOf(files.key), key);
  const auto now = (*watched)->Current();
  EXPECT_NE(now->self.serial, before->self.serial);
  EXPECT_EQ(now->self.name, "mdc1");
  EXPECT_EQ(HostsOf(*ParseCertificates(now->cert_pem)->front()), "localhost");
  EXPECT_EQ(Names([](const IssuedCertificate& one) { return one.replaced; }).size(), 1u);
}

TEST_F(PkiLifeTest, FilesThatAreWrongLeaveThoseOfBeforeInUse) {
  const TlsFiles files = Issue(TlsRole::kClient, "ws1", 10);
  const auto watched = WatchedTls::Load(files, TlsRole::kClient);
  ASSERT_TRUE(watched.ok()) << watched.status();
  const std::string serial = (*watched)->Current()->self.serial;
  const std::string good = TextOf(files.cert);
  std::ofstream(files.cert) << "rubbish";
  EXPECT_EQ((*watched)->Current()->self.serial, serial);
  std::ofstream(files.cert) << TextOf(Issue(TlsRole::kClient, "ws2", 10).cert);  // half replaced
  EXPECT_EQ((*watched)->Current()->self.serial, serial);
  std::filesystem::remove(files.key);
  EXPECT_EQ((*watched)->Current()->self.serial, serial);
}

TEST_F(PkiLifeTest, WithoutNamesWhatEndsSoonIsRenewed) {
  Issue(TlsRole::kClient, "soon", 10);
  Issue(TlsRole::kClient, "late", 60);
  Issue(TlsRole::kClient, "revoked", 10);
  ASSERT_TRUE(RevokeCertificates(pki_, "revoked", "").ok());
  const auto renewed = RenewCertificates(pki_, {}, 30, 825);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  ASSERT_EQ(renewed->size(), 1u);
  EXPECT_EQ(renewed->front().name, "soon");
  EXPECT_THAT(*RenewCertificates(pki_, {}, 30, 825), ::testing::IsEmpty());
}

TEST_F(PkiLifeTest, RenewingNeedsAHolderThatIsNotRevoked) {
  Issue(TlsRole::kClient, "ws1", 10);
  EXPECT_TRUE(absl::IsNotFound(RenewCertificates(pki_, {"ws9"}, 30, 90).status()));
  ASSERT_TRUE(RevokeCertificates(pki_, "ws1", "").ok());
  const auto refused = RenewCertificates(pki_, {"ws1"}, 30, 90).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--role client --name ws1"));
}

TEST_F(PkiLifeTest, RevokingTakesAllOfANameAndLeavesItToBeIssuedAgain) {
  const TlsFiles files = Issue(TlsRole::kClient, "ws1", 10);
  Issue(TlsRole::kClient, "ws2", 10);
  const TlsPeer first = PeerIn(files.cert);
  ASSERT_TRUE(RenewCertificates(pki_, {"ws1"}, 30, 90).ok());
  const TlsPeer second = PeerIn(files.cert);
  EXPECT_FALSE(IsRevoked(first)) << "there is no list yet";

  const auto revoked = RevokeCertificates(pki_, "ws1", "");
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_EQ(revoked->list, pki_ + "/ca.crl");
  EXPECT_EQ(revoked->serials.size(), 2u);
  EXPECT_TRUE(IsRevoked(first));
  EXPECT_TRUE(IsRevoked(second));
  EXPECT_TRUE(absl::IsNotFound(RevokeCertificates(pki_, "ws1", "").status()));

  EXPECT_FALSE(IsRevoked(PeerIn(Issue(TlsRole::kClient, "ws1", 10).cert)));
  ASSERT_TRUE(RevokeCertificates(pki_, "ws2", "").ok());
  EXPECT_TRUE(IsRevoked(first)) << "a list only grows";
  EXPECT_THAT(Names([](const IssuedCertificate& one) { return !one.revoked.empty(); }),
              ElementsAre("ws1/client", "ws1/client", "ws2/client"));
  EXPECT_THAT(Names([](const IssuedCertificate& one) { return one.in_use(); }),
              ElementsAre(::testing::EndsWith("/authority"), "ws1/client"));
}

TEST_F(PkiLifeTest, OneOfSeveralIsRevokedByItsNumber) {
  const TlsFiles files = Issue(TlsRole::kClient, "ws1", 10);
  const TlsPeer first = PeerIn(files.cert);
  ASSERT_TRUE(RenewCertificates(pki_, {"ws1"}, 30, 90).ok());
  ASSERT_TRUE(RevokeCertificates(pki_, "ws1", first.serial).ok());
  EXPECT_TRUE(IsRevoked(first));
  EXPECT_FALSE(IsRevoked(PeerIn(files.cert)));
}

TEST_F(PkiLifeTest, AListThatIsNotTheAuthoritysIsNeverReplacedNorBelieved) {
  Issue(TlsRole::kClient, "ws1", 10);
  ASSERT_TRUE(InitPki(base_ + "/other", 10).ok());
  ASSERT_TRUE(IssueCertificate(base_ + "/other", {TlsRole::kClient, "ws1", {}, 10}).ok());
  ASSERT_TRUE(RevokeCertificates(base_ + "/other", "ws1", "").ok());
  const std::string ca = TextOf(pki_ + "/ca.crt");
  for (const std::string& wrong : {TextOf(base_ + "/other/ca.crl"), std::string("rubbish"),
                                   std::string("-----BEGIN X509 CRL-----\nAAAA\n")}) {
    std::ofstream(pki_ + "/ca.crl") << wrong;
    EXPECT_FALSE(RevokeCertificates(pki_, "ws1", "").ok());
    EXPECT_EQ(TextOf(pki_ + "/ca.crl"), wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(ReadRevocations(pki_ + "/ca.crt", ca).status()));
  }
  EXPECT_TRUE(
      Revocations::Parse(TextOf(base_ + "/other/ca.crl"), ca + TextOf(base_ + "/other/ca.crt"))
          .ok())
      << "of two authorities that are believed";
}

}  // namespace
}  // namespace reel::tools
