// The authority, and every mistake with its certificates that a program can see by itself.
#include "tools/pki/pki.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "proto/tls/tls.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;

class PkiTest : public ::testing::Test {
 protected:
  PkiTest() {
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_);
    EXPECT_TRUE(InitPki(pki_, 100).ok());
  }
  ~PkiTest() override { std::filesystem::remove_all(base_); }

  PkiFiles Issue(TlsRole role, const std::string& name, std::uint32_t days = 10) {
    const auto files =
        IssueCertificate(pki_, {role, name, {"localhost", "127.0.0.1", "::1"}, days});
    EXPECT_TRUE(files.ok()) << files.status();
    return files.value_or(PkiFiles{});
  }
  TlsFiles Files(const PkiFiles& issued) {
    return {.ca = pki_ + "/ca.crt", .cert = issued.certificate, .key = issued.key};
  }
  static std::string ErrorOf(const TlsFiles& files, TlsRole role = TlsRole::kClient) {
    return std::string(LoadTls(files, role).status().message());
  }
  static std::string TextOf(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const std::string base_ = ::testing::TempDir() + "reel_pki_test";
  const std::string pki_ = base_ + "/pki";
};

TEST_F(PkiTest, IssuedCertificatesAreAccepted) {
  for (const TlsRole role : {TlsRole::kMdc, TlsRole::kClient, TlsRole::kAdmin}) {
    const PkiFiles issued = Issue(role, "holder-" + std::string(RoleName(role)));
    const auto loaded = LoadTls(Files(issued), role);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->self.name, "holder-" + std::string(RoleName(role)));
    EXPECT_EQ((*loaded)->self.role, role);
    struct stat stat {};
    ASSERT_EQ(::stat(issued.key.c_str(), &stat), 0);
    EXPECT_EQ(stat.st_mode & 07777, 0600u);
  }
  const auto certificates = ParseCertificates(TextOf(pki_ + "/holder-mdc.crt"));
  EXPECT_EQ(HostsOf(*certificates->front()), "localhost, 127.0.0.1, ::1");
  EXPECT_FALSE(LoadTls({}, TlsRole::kClient)->has_value());
}

TEST_F(PkiTest, NothingIsOverwritten) {
  const PkiFiles issued = Issue(TlsRole::kClient, "ws1");
  const std::string before = TextOf(issued.key);
  EXPECT_TRUE(
      absl::IsAlreadyExists(IssueCertificate(pki_, {TlsRole::kClient, "ws1", {}, 10}).status()));
  EXPECT_EQ(TextOf(issued.key), before);
  EXPECT_TRUE(absl::IsAlreadyExists(InitPki(pki_, 10).status()));
  // The certificate of a key that is gone: the new key goes, too.
  std::filesystem::remove(issued.key);
  EXPECT_TRUE(
      absl::IsAlreadyExists(IssueCertificate(pki_, {TlsRole::kClient, "ws1", {}, 10}).status()));
  EXPECT_FALSE(std::filesystem::exists(issued.key));
}

TEST_F(PkiTest, RequestsThatMakeNoSense) {
  const auto error = [&](const PkiRequest& request) {
    return std::string(IssueCertificate(pki_, request).status().message());
  };
  EXPECT_THAT(error({TlsRole::kMdc, "mdc1", {}, 10}), HasSubstr("--host"));
  for (const char* name : {"", "ca", "../x", "a b", ".x"}) {
    EXPECT_THAT(error({TlsRole::kClient, name, {}, 10}), HasSubstr("the name")) << name;
  }
  EXPECT_THAT(error({TlsRole::kMdc, "m", {"a,URI:reelfs:role/admin"}, 10}), HasSubstr("--host"));
  EXPECT_THAT(error({TlsRole::kMdc, "m", {"mdc1:7440"}, 10}), HasSubstr("port"));
  EXPECT_THAT(
      std::string(IssueCertificate(base_, {TlsRole::kClient, "x", {}, 1}).status().message()),
      HasSubstr("reeladm pki init"));
}

TEST_F(PkiTest, WrongFilesAreNamed) {
  const TlsFiles good = Files(Issue(TlsRole::kClient, "ws1"));
  EXPECT_EQ(ErrorOf(good), "");
  EXPECT_THAT(ErrorOf({good.ca, good.cert, ""}), HasSubstr("tls_key is missing"));
  EXPECT_THAT(ErrorOf({good.ca, "/nowhere.crt", good.key}),
              HasSubstr("tls_cert /nowhere.crt: No such file"));
  EXPECT_THAT(ErrorOf({good.ca, base_, good.key}), HasSubstr("is no regular file"));
  EXPECT_THAT(ErrorOf({good.ca, good.key, good.key}), HasSubstr("no certificate in PEM form"));
  chmod(good.ca.c_str(), 0600);  // as no key, but kept like one
  EXPECT_THAT(ErrorOf({good.ca, good.cert, good.ca}), HasSubstr("no private key in PEM form"));
  const PkiFiles other = Issue(TlsRole::kClient, "ws2");
  EXPECT_THAT(ErrorOf({good.ca, good.cert, other.key}), HasSubstr("does not fit tls_cert"));
  EXPECT_THAT(ErrorOf(good, TlsRole::kAdmin), HasSubstr("role client; the role needed"));
  EXPECT_THAT(ErrorOf(good, TlsRole::kMdc), HasSubstr("the role needed here is mdc"));
  chmod(good.key.c_str(), 0644);
  EXPECT_THAT(ErrorOf(good), HasSubstr("secret"));
}

TEST_F(PkiTest, WrongAuthorityAndDates) {
  const TlsFiles good = Files(Issue(TlsRole::kClient, "ws1"));
  ASSERT_TRUE(InitPki(base_ + "/other", 10).ok());
  EXPECT_THAT(ErrorOf({base_ + "/other/ca.crt", good.cert, good.key}),
              HasSubstr("is not accepted by tls_ca"));
  EXPECT_THAT(ErrorOf(Files(Issue(TlsRole::kClient, "old", /*days=*/0))), HasSubstr("has expired"));
}

TEST(Certificates, AnyBytesAreAnError) {
  for (const std::string text : {"", "x", "-----BEGIN CERTIFICATE-----\n",
                                 "-----BEGIN CERTIFICATE-----\nAAAA\n-----END "
                                 "CERTIFICATE-----\n"}) {
    EXPECT_FALSE(ParseCertificates(text).ok()) << text;
    EXPECT_FALSE(PeerOf(text).ok()) << text;
    EXPECT_FALSE(ParsePrivateKey(text).ok()) << text;
  }
}

}  // namespace
}  // namespace reel::tools
