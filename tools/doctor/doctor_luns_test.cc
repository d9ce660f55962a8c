// What the doctor sees of LUNs; and that it leaves them as they are.
#include "tools/doctor/doctor_luns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "volume/format/label.h"
#include "volume/lun/lun.h"
#include "volume/testing/tcp_proxy.h"
#include "volume/testing/tgt_target.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Level = Finding::Level;

class DoctorLunsTest : public ::testing::Test {
 protected:
  DoctorLunsTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~DoctorLunsTest() override { std::filesystem::remove_all(directory_); }

  std::string Image(const std::string& name) {
    const std::string path = directory_ + name;
    std::ofstream(path).close();
    std::filesystem::resize_file(path, 16 << 20);
    return path;
  }
  std::string LabelledImage(const std::string& name) {
    const std::string path = Image(name);
    WriteLabelOn(path, name);
    return path;
  }
  static void WriteLabelOn(const std::string& path, const std::string& name) {
    const auto lun = OpenLun(path, LunAccess::kReadWrite);
    EXPECT_TRUE(lun.ok()) << lun.status();
    Label label;
    label.lun = Uuid::Random();
    label.name = name;
    label.size_bytes = 16 << 20;
    EXPECT_TRUE(WriteLabel(**lun, label).ok());
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const std::string directory_ = ::testing::TempDir() + "reel_doctor_luns/";
};

TEST_F(DoctorLunsTest, LooksAtLabelledLunsAndChangesNothing) {
  const std::string path = LabelledImage("data1");
  const std::string before = BytesOf(path);
  const auto findings = LunFindings({directory_ + "*"}, {}, HostTrees());
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].subject, "data1 (" + path + ")");
  EXPECT_THAT(findings[0].text, HasSubstr("of no volume yet, can be read and written"));
  EXPECT_EQ(findings[0].level, Level::kWarning) << "an image file cannot cut a host off";
  EXPECT_EQ(BytesOf(path), before);
}

TEST_F(DoctorLunsTest, ALunThatHasGrownIsNoticed) {
  const std::string path = LabelledImage("data1");
  std::filesystem::resize_file(path, 32 << 20);
  const auto findings = LunFindings({path}, {}, HostTrees());
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].text, HasSubstr("has grown to 32 MiB, of which"));
}

TEST_F(DoctorLunsTest, EachPortalOfAnAddressIsTried) {
  const TgtTarget target({.luns = 1, .lun_bytes = 16 << 20, .chap_user = "", .chap_secret = ""});
  auto other = std::make_unique<TcpProxy>(target.port());
  const std::string portal = absl::StrCat("127.0.0.1:", other->port());
  const std::string url = target.Url().insert(std::string("iscsi://").size(), portal + ",");
  WriteLabelOn(url, "data1");
  auto findings = LunFindings({url}, {}, HostTrees());
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].text, HasSubstr("2 of 2 portals lead to it"));
  EXPECT_EQ(findings[0].level, Level::kOk);
  other.reset();
  findings = LunFindings({url}, {}, HostTrees());
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].text, HasSubstr("1 of 2 portals lead to it, portal " + portal + ": no"));
  EXPECT_EQ(findings[0].level, Level::kWarning);
  EXPECT_THAT(findings[0].todo, HasSubstr("cable"));
}

TEST_F(DoctorLunsTest, WhatHasNoLabelIsCountedAlone) {
  Image("a");
  Image("b");
  const auto findings = LunFindings({directory_ + "*"}, {}, HostTrees());
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].level, Level::kOk);
  EXPECT_THAT(findings[0].text, HasSubstr("2 more without a label"));
}

TEST_F(DoctorLunsTest, PatternsThatLeadToNothingAreFailures) {
  const auto findings = LunFindings({directory_ + "x*", directory_ + "none"}, {}, HostTrees());
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_THAT(findings[0].text, HasSubstr("leads to nothing"));
  EXPECT_EQ(findings[1].subject, directory_ + "none");
  EXPECT_EQ(findings[1].level, Level::kFailure);
}

TEST_F(DoctorLunsTest, AVolumeThatIsServedHereHasToBeThere) {
  LabelledImage("data1");
  const auto findings = LunFindings({directory_ + "*"}, {"reel"}, HostTrees());
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[1].check, "volume");
  EXPECT_EQ(findings[1].level, Level::kFailure);
}

}  // namespace
}  // namespace reel::tools
