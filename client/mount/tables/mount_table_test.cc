#include "client/mount/tables/mount_table.h"

#include <string>

#include "gtest/gtest.h"

namespace reel::client {
namespace {

constexpr std::string_view kTable =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "30 22 0:26 / /mnt/edit rw,relatime - fuse.reelfs edit rw\n"
    "31 22 0:27 / /mnt/two\\040words rw - fuse.reelfs other rw\n"
    "32 31 0:28 / /mnt/two\\040words/tmp rw - tmpfs none rw\n"
    "33 22 0:29 / /mnt/edit rw - fuse.reelfs over rw\n"
    "a line cut\n";

TEST(MountTable, NamesTheDeviceOfTheMountOnTop) {
  EXPECT_EQ(MountedIn(kTable, "/").device, "254:0");
  EXPECT_EQ(MountedIn(kTable, "/mnt/edit").device, "0:29");
  EXPECT_EQ(MountedIn(kTable, "/mnt").device, "");
  EXPECT_EQ(MountedIn(kTable, "/mnt/two words").device, "0:27");
  EXPECT_EQ(MountedIn(kTable, "/mnt/edit").source, "over");
  EXPECT_TRUE(IsOurs(MountedIn(kTable, "/mnt/edit")));
  EXPECT_FALSE(IsOurs(MountedIn(kTable, "/")));
}

TEST(MountTable, FindsTheDirectoryUnderAMount) {
  EXPECT_TRUE(IsMountedUponIn(kTable, "254:0"));
  EXPECT_TRUE(IsMountedUponIn(kTable, "0:27"));
  EXPECT_FALSE(IsMountedUponIn(kTable, "0:26"));
  EXPECT_FALSE(IsMountedUponIn(kTable, "0:99"));
  EXPECT_FALSE(IsMountedUponIn("", "0:26"));
}

TEST(MountTable, KnowsLayersOfOverlays) {
  const std::string table =
      std::string(kTable) +
      "40 22 0:50 / /merged rw - overlay overlay rw,lowerdir=/mnt/edit/base,upperdir=/up\n";
  EXPECT_TRUE(IsMountedUponIn(table, "0:26"));
  EXPECT_FALSE(IsMountedUponIn(table, "0:28"));
}

TEST(MountTable, ReadsThatOfThisMachine) {
  const std::string root = DeviceOfMount("/");
  ASSERT_FALSE(root.empty());
  EXPECT_TRUE(IsMountedUpon(DeviceOfMount("/"))) << "/proc at least";
  EXPECT_FALSE(IsMountedUpon(DeviceOfMount("/proc/self")));
}

TEST(MountTable, KnowsWhatIsNotedAsOfTheNetwork) {
  constexpr char kTable[] =
      "SRC=reel TARGET=/mnt/a\\040b ROOT=/ OPTS=user=x,_netdev\n"
      "SRC=reel TARGET=/mnt/c ROOT=/ OPTS=user=x\n";
  EXPECT_TRUE(IsNotedIn(kTable, "/mnt/a b"));
  EXPECT_FALSE(IsNotedIn(kTable, "/mnt/c"));
  EXPECT_FALSE(IsNotedIn(kTable, "/mnt"));
  EXPECT_FALSE(IsNotedIn("", "/mnt/c"));
}

}  // namespace
}  // namespace reel::client
