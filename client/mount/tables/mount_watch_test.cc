#include "client/mount/tables/mount_watch.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "client/mount/tables/mount_table.h"
#include "client/testing/test_clocks.h"
#include "gtest/gtest.h"

namespace reel::client {
namespace {

// A file system in a mount namespace of the test's own.
class MountWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNS) != 0) GTEST_SKIP() << "only root has a mount namespace of its own";
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_NE(mkdtemp(place_.data()), nullptr);
    ASSERT_EQ(mount("none", place_.c_str(), "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(mkdir(upon_().c_str(), 0700), 0);
  }
  void TearDown() override {
    umount2(place_.c_str(), MNT_DETACH);
    rmdir(place_.c_str());
  }
  std::string upon_() const { return place_ + "/upon"; }
  bool Mount() const { return mount("none", upon_().c_str(), "tmpfs", 0, nullptr) == 0; }

  std::string place_ = testing::TempDir() + "mount_watch.XXXXXX";
  ManualClock clock_;
};

TEST_F(MountWatchTest, SeesWhatIsMountedAndUnmounted) {
  MountWatch watch(DeviceOfMount(place_), clock_);
  EXPECT_FALSE(watch.AnyUpon());
  ASSERT_TRUE(Mount());
  EXPECT_TRUE(watch.AnyUpon());
  EXPECT_TRUE(watch.AnyUpon());
  ASSERT_EQ(umount(upon_().c_str()), 0);
  EXPECT_FALSE(watch.AnyUpon());
}

TEST_F(MountWatchTest, SeesAMountInAnotherNamespace) {
  MountWatch watch(DeviceOfMount(place_), clock_);
  EXPECT_FALSE(watch.AnyUpon());
  int mounted[2], done[2];
  ASSERT_EQ(pipe(mounted), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = unshare(CLONE_NEWNS) == 0 && Mount() ? 'y' : 'n';
    (void)!write(mounted[1], &byte, 1);
    (void)!read(done[0], &byte, 1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(mounted[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_TRUE(watch.AnyUpon());
  ASSERT_EQ(write(done[1], &byte, 1), 1);
  waitpid(child, nullptr, 0);
  clock_.Advance(MountWatch::kCountsMs);
  EXPECT_FALSE(watch.AnyUpon());
}

// (Other programs of this machine may mount something meanwhile.)
TEST_F(MountWatchTest, WhereNothingChangesTheTablesAreReadNowAndThen) {
  utsname kernel;
  ASSERT_EQ(uname(&kernel), 0);
  int major = 0, minor = 0;
  ASSERT_EQ(sscanf(kernel.release, "%d.%d", &major, &minor), 2);
  if (major < 6 || (major == 6 && minor < 12)) GTEST_SKIP() << "it does not tell of the others";
  MountWatch watch(DeviceOfMount(place_), clock_);
  const auto reads = [&] {
    const std::uint64_t before = watch.readings();
    EXPECT_FALSE(watch.AnyUpon());
    return watch.readings() - before;
  };
  EXPECT_EQ(reads(), 1u);
  int tries = 0;
  while (reads() + reads() + reads() > 0) ASSERT_LT(++tries, 1'000);
  clock_.Advance(MountWatch::kCountsMs);
  EXPECT_EQ(reads(), 1u);
}

}  // namespace
}  // namespace reel::client
