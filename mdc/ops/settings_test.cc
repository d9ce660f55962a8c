#include "mdc/ops/settings.h"

#include "gmock/gmock.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

const std::string kWriters = "reelfs.writers";
const std::string kAffinity = "reelfs.affinity";

class SettingsTest : public OpFixture {
 protected:
  std::string WritersOf(std::uint64_t inode) {
    EXPECT_EQ(GetXattr(inode, kWriters), 0);
    return reply_.data().data();
  }
  void BeWriter(SessionId session, std::uint64_t inode) {
    locks_.Set({.inode = InodeNumber(inode),
                .owner = {session, v1::LOCK_WRITER, 0},
                .range = {0, 100},
                .type = v1::LOCK_EXCLUSIVE});
  }
};

TEST_F(SettingsTest, NewFilesHaveWhatTheirDirectoryHas) {
  const std::uint64_t folder = MakeDir(kRoot, "folder");
  EXPECT_EQ(WritersOf(folder), "many");
  EXPECT_EQ(SetXattr(folder, kWriters, "single"), 0);
  const std::uint64_t below = MakeDir(folder, "below");
  const std::uint64_t file = MakeFile(below, "file");
  EXPECT_EQ(WritersOf(file), "single");
  EXPECT_EQ(Attributes(file).flags(), v1::INODE_FLAG_SINGLE_WRITER);
  EXPECT_FALSE(Attributes(file).xattrs());
  EXPECT_EQ(SetXattr(file, kWriters, "many"), 0);
  EXPECT_EQ(WritersOf(file), "many");
  EXPECT_EQ(SetFlags(below, v1::INODE_FLAG_APPEND), 0);  // chattr(1) leaves it alone
  EXPECT_EQ(WritersOf(below), "single");
}

TEST_F(SettingsTest, UnknownSettingsAreRefused) {
  const std::uint64_t file = MakeFile(kRoot, "file");
  EXPECT_EQ(SetXattr(file, kWriters, "three"), EINVAL);
  EXPECT_EQ(SetXattr(file, "reelfs.colour", "red"), EOPNOTSUPP);
  EXPECT_EQ(GetXattr(file, "reelfs.colour"), EOPNOTSUPP);
  std::uint64_t link = 0;
  ASSERT_EQ(Create(kRoot, "link", S_IFLNK, &link, "file"), 0);
  EXPECT_EQ(SetXattr(link, kWriters, "single"), EOPNOTSUPP);
  credentials_.set_uid(1000);
  EXPECT_EQ(SetXattr(file, kWriters, "single"), EPERM);
}

TEST_F(SettingsTest, ASingleWritersFileIsNotTruncatedByOthers) {
  const std::uint64_t file = MakeFile(kRoot, "file");
  BeWriter(kOther, file);
  EXPECT_EQ(Truncate(file, 5), 0);
  EXPECT_EQ(SetXattr(file, kWriters, "single"), 0);
  EXPECT_EQ(Truncate(file, 6), EBUSY);
  BeWriter(kMe, file);
  locks_.Drop(kOther);
  EXPECT_EQ(Truncate(file, 7), 0);
}

TEST_F(SettingsTest, AnAffinityIsInheritedFromTheDirectory) {
  const std::uint64_t folder = MakeDir(kRoot, "folder");
  EXPECT_EQ(GetXattr(folder, kAffinity), ENODATA);
  EXPECT_EQ(SetXattr(folder, kAffinity, "fast"), 0);
  const std::uint64_t file = MakeFile(MakeDir(folder, "below"), "file");
  ASSERT_EQ(GetXattr(file, kAffinity), 0);
  EXPECT_EQ(reply_.data().data(), "fast");
  EXPECT_FALSE(Attributes(file).xattrs());
  EXPECT_EQ(SetXattr(folder, kAffinity, ""), 0);
  EXPECT_EQ(GetXattr(folder, kAffinity), ENODATA);
  EXPECT_EQ(GetXattr(file, kAffinity), 0);
  EXPECT_EQ(GetXattr(MakeFile(folder, "later"), kAffinity), ENODATA);
}

TEST_F(SettingsTest, TheOwnerSetsAnExistingAffinity) {
  const std::uint64_t file = MakeFile(kRoot, "file");
  EXPECT_EQ(SetXattr(file, kAffinity, "slow"), EINVAL);
  EXPECT_THAT(error_, testing::HasSubstr("there are: fast"));
  std::uint64_t link = 0;
  ASSERT_EQ(Create(kRoot, "link", S_IFLNK, &link, "file"), 0);
  EXPECT_EQ(SetXattr(link, kAffinity, "fast"), EOPNOTSUPP);
  credentials_.set_uid(1000);
  EXPECT_EQ(SetXattr(file, kAffinity, "fast"), EPERM);
  std::uint64_t mine = 0;
  ASSERT_EQ(Create(kRoot, "mine", S_IFREG | 0600, &mine), 0);
  EXPECT_EQ(SetXattr(mine, kAffinity, "fast"), 0);
}

// (Exclusive pools: tests/e2e/test_affinity.py.)
TEST_F(SettingsTest, OnlyDataPoolsCountAsUsableSpace) {
  const std::uint64_t folder = MakeDir(kRoot, "folder");
  const std::uint64_t all = allocator_->total_blocks();
  const auto space = [&](std::uint64_t free_blocks) {
    return absl::StrCat(all * volume_.block_bytes, " ", free_blocks * volume_.block_bytes);
  };
  EXPECT_EQ(GetXattr(folder, "reelfs.space"), 0);
  EXPECT_EQ(reply_.data().data(), space(all));
  Scatter(MakeFile(folder, "file"), 10);
  EXPECT_EQ(GetXattr(folder, "reelfs.space"), 0);
  EXPECT_EQ(reply_.data().data(), space(all - 10));
  EXPECT_EQ(SetXattr(folder, "reelfs.space", "0 0"), EPERM);
}

TEST_F(SettingsTest, ANewAffinityDropsPreallocatedBlocks) {
  const std::uint64_t file = MakeFile(kRoot, "file");
  Scatter(file, 4);
  ASSERT_TRUE(InContext(kMe, [&](OpContext& ctx) {
                (*ctx.txn.Inode(InodeNumber(file)))->set_size_bytes(volume_.block_bytes);
                ctx.txn.Changed(InodeNumber(file));
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(SetXattr(file, kAffinity, "fast"), 0);
  EXPECT_EQ(ExtentCount(file), 1U);
  EXPECT_EQ(GetXattr(file, kAffinity), 0);
  ExpectSound();
}

TEST_F(SettingsTest, AnotherAffinityWaitsForTheRecallOfLayouts) {
  const std::uint64_t file = MakeFile(kRoot, "file");
  for (const SessionId holder : {kOther, kMe}) {
    tokens_.Grant(holder, InodeNumber(file), v1::TOKEN_EXCLUSIVE);
    EXPECT_EQ(SetXattr(file, kAffinity, "fast"), EAGAIN);
    EXPECT_EQ(blocked_, InodeNumber(file));
    EXPECT_EQ(GetXattr(file, kAffinity), ENODATA);
    EXPECT_EQ(SetXattr(file, kAffinity, ""), 0);  // nothing changes
    tokens_.Return(holder, InodeNumber(file), v1::TOKEN_NONE);
  }
  EXPECT_EQ(SetXattr(file, kAffinity, "fast"), 0);
}

}  // namespace
}  // namespace reel::mdc
