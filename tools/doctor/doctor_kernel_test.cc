// What the doctor makes of a kernel, its clock, its limits, its paths and its mounts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "tools/doctor/directory_probe.h"
#include "tools/doctor/doctor_kernel.h"
#include "tools/doctor/doctor_mounts.h"
#include "tools/doctor/doctor_paths.h"

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Level = Finding::Level;

// A host's trees, as a test writes them.
class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() { std::filesystem::remove_all(base_); }
  ~DoctorTest() override { std::filesystem::remove_all(base_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(base_ + path).parent_path());
    std::ofstream(base_ + path) << text;
  }

  const std::string base_ = ::testing::TempDir() + "reel_doctor";
  const HostTrees trees_{
      .proc = base_ + "/proc", .sys = base_ + "/sys", .dev = base_ + "/dev", .etc = base_ + "/etc"};
};

TEST_F(DoctorTest, KernelsAreToldByWhatTheyCannotDo) {
  EXPECT_EQ(KernelFinding("5.10.0-8-amd64").level, Level::kWarning);
  EXPECT_THAT(KernelFinding("6.1.0-18-amd64").text, HasSubstr("without shared maps"));
  const Finding newer = KernelFinding("6.12.8+deb12");
  EXPECT_EQ(newer.level, Level::kOk);
  EXPECT_THAT(newer.text, testing::Not(HasSubstr("shared maps")));
  EXPECT_THAT(newer.text, HasSubstr("FUSE over io_uring"));
  EXPECT_EQ(KernelFinding("6.16.1").text, "Linux 6.16.1");
}

TEST_F(DoctorTest, AClockThatNobodySetsIsAWarning) {
  timex clock{};
  clock.maxerror = 2'500;
  EXPECT_THAT(ClockFinding(TIME_OK, clock).text, HasSubstr("to 3 ms"));
  EXPECT_EQ(ClockFinding(TIME_OK, clock).level, Level::kOk);
  EXPECT_EQ(ClockFinding(TIME_ERROR, clock).level, Level::kWarning);
  clock.status = STA_UNSYNC;
  EXPECT_EQ(ClockFinding(TIME_OK, clock).level, Level::kWarning);
  clock = {};
  clock.maxerror = 900'000;
  EXPECT_EQ(ClockFinding(TIME_OK, clock).level, Level::kWarning);
}

TEST_F(DoctorTest, UringIsAllowedOrNot) {
  EXPECT_EQ(UringFinding(EFAULT).level, Level::kOk);
  EXPECT_EQ(UringFinding(EPERM).level, Level::kWarning);
  EXPECT_EQ(UringFinding(ENOSYS).level, Level::kWarning);
}

TEST_F(DoctorTest, LimitsAreThoseOfWhatRuns) {
  const auto limits = [](const char* files, const char* locked) {
    return std::string(
               "Limit                     Soft Limit           Hard Limit           Units\n") +
           "Max open files            1024                 " + files + "               files\n" +
           "Max locked memory         8388608              " + locked + "              bytes\n";
  };
  Write("/proc/self/limits", limits("1024", "8388608"));
  ASSERT_THAT(LimitFindings(trees_), SizeIs(1));
  EXPECT_EQ(LimitFindings(trees_)[0].level, Level::kWarning);
  Write("/proc/41/comm", "reel-mdcd\n");
  Write("/proc/41/limits", limits("65536", "unlimited"));
  Write("/proc/42/comm", "bash\n");
  const auto findings = LimitFindings(trees_);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].level, Level::kOk);
  EXPECT_EQ(findings[0].subject, "reel-mdcd (41)");
  EXPECT_EQ(findings[0].text, "65536 open files, unlimited bytes of locked memory");
}

TEST_F(DoctorTest, NoFuseIsAFailure) {
  Write("/proc/self/mountinfo", "22 1 0:21 / /sys rw - sysfs sysfs rw\n");
  auto findings = FuseFindings(trees_);
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_EQ(findings[1].level, Level::kWarning);
  Write("/dev/fuse", "");
  Write("/proc/self/mountinfo", "35 22 0:31 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n");
  findings = FuseFindings(trees_);
  EXPECT_EQ(findings[0].level, Level::kOk);
  EXPECT_EQ(findings[1].level, Level::kOk);
}

TEST_F(DoctorTest, AKernelThatDoesNotOfferFuseOverIoUringIsNoticed) {
  const auto finding = [this] { return FuseFindings(trees_).at(2); };
  EXPECT_EQ(finding().level, Level::kOk) << "an older kernel: nothing can be done";
  Write("/sys/module/fuse/parameters/enable_uring", "N\n");
  EXPECT_EQ(finding().level, Level::kWarning);
  EXPECT_THAT(finding().todo, HasSubstr("echo Y > /sys/module/fuse/parameters/enable_uring"));
  Write("/sys/module/fuse/parameters/enable_uring", "Y\n");
  EXPECT_EQ(finding().level, Level::kOk);
}

TEST_F(DoctorTest, AKernelWhoseFuseCutsLargeRequestsIsNoticed) {
  const auto finding = [this] { return FuseFindings(trees_).at(3); };
  EXPECT_EQ(finding().level, Level::kOk) << "an older kernel: nothing can be done";
  Write("/proc/sys/fs/fuse/max_pages_limit", "256\n");
  EXPECT_EQ(finding().level, Level::kWarning);
  EXPECT_THAT(finding().todo, HasSubstr("sysctl fs.fuse.max_pages_limit=1024"));
  Write("/proc/sys/fs/fuse/max_pages_limit", "1024\n");
  EXPECT_EQ(finding().level, Level::kOk);
}

TEST_F(DoctorTest, PathsOfAMultipathDeviceAreCounted) {
  Write("/sys/block/dm-3/dm/uuid", "mpath-36001405aaaa\n");
  Write("/sys/block/dm-3/dm/name", "meta1\n");
  Write("/sys/block/dm-3/slaves/sdb/x", "");
  Write("/sys/block/sdb/device/state", "running\n");
  EXPECT_EQ(PathsOf(trees_, "dm-3").text, "1 of 1 paths by multipath");
  EXPECT_THAT(PathsOf(trees_, "dm-3").todo, HasSubstr("no reserve"));
  Write("/sys/block/dm-3/slaves/sdc/x", "");
  Write("/sys/block/sdc/device/state", "running\n");
  EXPECT_EQ(PathsOf(trees_, "dm-3").todo, "");
  Write("/sys/block/sdc/device/state", "offline\n");
  EXPECT_EQ(PathsOf(trees_, "dm-3").text, "1 of 2 paths by multipath");
  EXPECT_THAT(PathsOf(trees_, "dm-3").todo, HasSubstr("mend sdc"));
  Write("/sys/block/sdb/holders/dm-3/x", "");
  EXPECT_THAT(PathsOf(trees_, "sdb").todo, HasSubstr("/dev/mapper/meta1"));
}

TEST_F(DoctorTest, TwoPathsThatNothingJoinsAreNoticed) {
  Write("/sys/block/sdb/device/wwid", "naa.6001405aaaa\n");
  EXPECT_EQ(PathsOf(trees_, "sdb").text, "one path");
  EXPECT_EQ(PathsOf(trees_, "sdb").todo, "");
  Write("/sys/block/sdc/device/wwid", "naa.6001405aaaa\n");
  EXPECT_EQ(PathsOf(trees_, "sdb").text, "one path; another is sdc");
  EXPECT_THAT(PathsOf(trees_, "sdb").todo, HasSubstr("multipathd"));
}

TEST_F(DoctorTest, PathsOfAnNvmeNamespaceAreCounted) {
  Write("/sys/block/nvme0n1/size", "1");
  EXPECT_EQ(PathsOf(trees_, "nvme0n1").text, "one path");
  Write("/sys/block/nvme0c0n1/device/state", "live\n");
  Write("/sys/block/nvme0c1n1/device/state", "connecting\n");
  Write("/sys/block/nvme0c1n2/device/state", "live\n");
  EXPECT_EQ(PathsOf(trees_, "nvme0n1").text, "1 of 2 paths by NVMe");
  EXPECT_THAT(PathsOf(trees_, "nvme0n1").todo, HasSubstr("mend nvme0c1n1"));
}

TEST_F(DoctorTest, WhatFstabWantsIsMounted) {
  const DirectoryProbe there = [](const std::string&) { return 0; };
  ASSERT_THAT(MountFindings(trees_, there), SizeIs(1));
  EXPECT_EQ(MountFindings(trees_, there)[0].level, Level::kWarning);
  Write("/etc/fstab", "# a line\nreel /mnt/reel reelfs _netdev 0 0\nUUID=1 / ext4 defaults 0 1\n");
  auto findings = MountFindings(trees_, there);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].todo, "mount /mnt/reel");
  Write("/proc/self/mountinfo",
        "22 1 0:21 / / rw - ext4 /dev/sda1 rw\n"
        "40 22 0:50 / /mnt/reel rw,nosuid shared:9 - fuse.reelfs reel rw,user_id=0\n");
  findings = MountFindings(trees_, there);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].level, Level::kOk);
  EXPECT_EQ(findings[0].text, "volume reel");
}

TEST_F(DoctorTest, AMountThatIsDeadOrHangsIsAFailure) {
  Write("/proc/self/mountinfo", "40 22 0:50 / /mnt/reel rw - fuse.reelfs reel rw\n");
  const auto dead = MountFindings(trees_, [](const std::string&) { return ENOTCONN; });
  EXPECT_EQ(dead[0].level, Level::kFailure);
  EXPECT_THAT(dead[0].todo, HasSubstr("umount -l /mnt/reel"));
  const auto hangs = MountFindings(trees_, [](const std::string&) { return std::nullopt; });
  EXPECT_THAT(hangs[0].text, HasSubstr("does not answer"));
}

TEST_F(DoctorTest, ADirectoryIsAskedByAProcessOfItsOwn) {
  EXPECT_EQ(ProbeDirectory("/", 10'000), 0);
  EXPECT_EQ(ProbeDirectory("/nonexistent", 10'000), ENOENT);
}

TEST_F(DoctorTest, FindingsAreOneLineEachAndAreCounted) {
  const std::vector<Finding> findings = {Finding::Ok("clock", "", "is synchronised"),
                                         Finding::Failure("lun", "/dev/x", "is\ngone", "find it")};
  EXPECT_EQ(FindingsText(findings),
            "ok      clock         is synchronised\n"
            "failure lun           /dev/x: is gone; find it\n"
            "1 failures, 0 warnings, 1 ok\n");
  EXPECT_TRUE(AnyFailure(findings));
  const auto json = FindingsJson(findings);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["findings"][1]["todo"], "find it");
}

}  // namespace
}  // namespace reel::tools
