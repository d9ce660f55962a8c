#include "volume/scsi/multipath.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace reel {
namespace {

// What sysfs shows of a device of the device mapper with two paths.
class MultipathPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("sys/dev/block/254:3/dm/uuid", "mpath-36001405aaaa");
    Write("sys/dev/block/254:3/slaves/sdb/dev", "1:3");
    Write("sys/dev/block/254:3/slaves/sdb/device/state", "running");
    Write("sys/dev/block/254:3/slaves/sda/dev", "8:0");
    Write("sys/dev/block/254:3/slaves/sda/device/state", "transport-offline");
    Write("dev/sda", "");
    std::filesystem::create_symlink("/dev/null", top_ + "/dev/sdb");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }
  void Write(const std::string& file, const std::string& line) {
    const std::filesystem::path path = top_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  std::vector<DevicePath> Paths() {
    return MultipathPaths(makedev(254, 3), top_ + "/sys", top_ + "/dev");
  }

  const std::string top_ = absl::StrCat(::testing::TempDir(), "multipath.", getpid());
};

std::string Complaint(const DevicePath& path) {
  std::array<std::byte, 8> buffer{};
  return std::string(path.Ask(scsi::ReserveIn::kReadKeys, buffer, "READ KEYS").status().message());
}

TEST_F(MultipathPathsTest, EachPathIsThereWhetherItIsReachedOrNot) {
  const auto paths = Paths();
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].name(), top_ + "/dev/sda");
  EXPECT_EQ(paths[1].name(), top_ + "/dev/sdb");
  EXPECT_THAT(Complaint(paths[0]), testing::HasSubstr("Input/output error"));
  EXPECT_THAT(Complaint(paths[1]), testing::HasSubstr("only SCSI devices")) << "it was asked";
}

TEST_F(MultipathPathsTest, APathWhoseDriverTellsNoStateIsAsked) {
  std::filesystem::remove(top_ + "/sys/dev/block/254:3/slaves/sdb/device/state");
  EXPECT_THAT(Complaint(Paths().at(1)), testing::HasSubstr("only SCSI devices"));
}

TEST_F(MultipathPathsTest, WhereAPathCannotBeOpenedThereIsOnlyTheDevice) {
  Write("sys/dev/block/254:3/slaves/sdb/dev", "8:16");  // the name is another device's
  EXPECT_TRUE(Paths().empty());
  std::filesystem::remove(top_ + "/dev/sdb");
  EXPECT_TRUE(Paths().empty());
}

TEST_F(MultipathPathsTest, WhatIsNoMultipathDeviceHasNone) {
  Write("sys/dev/block/254:3/dm/uuid", "LVM-abcd");
  EXPECT_TRUE(Paths().empty());
  std::filesystem::remove_all(top_ + "/sys/dev/block/254:3/dm");  // a plain disk
  EXPECT_TRUE(Paths().empty());
}

}  // namespace
}  // namespace reel
