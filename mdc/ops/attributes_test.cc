#include "mdc/ops/attributes.h"

#include "mdc/testing/op_fixture.h"
#include "proto/convert.h"
#include "proto/protocol.h"

namespace reel::mdc {
namespace {

using AttributesTest = OpFixture;

v1::SetAttr Set(std::uint64_t inode, std::uint32_t fields) {
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(fields);
  return set;
}

TEST_F(AttributesTest, ModeKeepsTheType) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  const std::int64_t mtime = Attributes(file).mtime().seconds();
  v1::SetAttr set = Set(file, v1::SetAttr::MODE);
  set.set_mode(0170000 | 0640);
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_EQ(reply_.attr().attr().mode(), S_IFREG | 0640u);
  EXPECT_EQ(reply_.attr().attr().mtime().seconds(), mtime);
  EXPECT_GT(reply_.attr().attr().ctime().seconds(), mtime);
  EXPECT_EQ(reply_.attr().attr().change(), 2u);
  std::uint64_t link = 0;
  EXPECT_EQ(Create(kRoot, "l", S_IFLNK, &link, "x"), 0);
  EXPECT_EQ(SetAttr(Set(link, v1::SetAttr::MODE)), EOPNOTSUPP);
  EXPECT_EQ(SetAttr(Set(file, 1u << 30)), EINVAL);
}

TEST_F(AttributesTest, ChownClearsPrivileges) {
  std::uint64_t program = 0, dir = 0;
  EXPECT_EQ(Create(kRoot, "p", S_IFREG | 06755, &program), 0);
  EXPECT_EQ(SetXattr(program, "security.capability", "all"), 0);
  EXPECT_EQ(Create(kRoot, "d", S_IFDIR | 06755, &dir), 0);
  v1::SetAttr set = Set(program, v1::SetAttr::UID);
  set.set_uid(5);
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_EQ(reply_.attr().attr().mode(), S_IFREG | 0755u);
  EXPECT_EQ(reply_.attr().attr().uid(), 5u);
  EXPECT_EQ(GetXattr(program, "security.capability"), ENODATA);
  set.set_inode(dir);
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_EQ(reply_.attr().attr().mode(), S_IFDIR | 06755u);
  std::uint64_t locked = 0;
  EXPECT_EQ(Create(kRoot, "m", S_IFREG | 06745, &locked), 0);  // no group execution
  EXPECT_EQ(SetAttr(Set(locked, v1::SetAttr::KILL_SUID_SGID)), 0);
  EXPECT_EQ(reply_.attr().attr().mode(), S_IFREG | 02745u);
}

TEST_F(AttributesTest, TimesAreSetAsGiven) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  v1::SetAttr set = Set(file, v1::SetAttr::ATIME | v1::SetAttr::MTIME_NOW);
  *set.mutable_atime() = ToProto(WallTime{-7, 5});
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_EQ(reply_.attr().attr().atime().seconds(), -7);
  EXPECT_EQ(reply_.attr().attr().mtime().seconds(), now_.seconds);
  EXPECT_EQ(reply_.attr().attr().ctime().seconds(), now_.seconds);
  set.mutable_atime()->set_nanoseconds(1'000'000'000);
  EXPECT_EQ(SetAttr(set), EINVAL);
}

TEST_F(AttributesTest, ReadsMoveOnlyTheAccessTime) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  tokens_.Grant(kOther, InodeNumber(file), v1::TOKEN_EXCLUSIVE);  // stands in no one's way
  v1::SetAttr set = Set(file, v1::SetAttr::ACCESSED);
  set.mutable_atime()->set_seconds(now_.seconds + 100);
  now_.seconds += 1'000;
  EXPECT_EQ(SetAttr(set), 0);
  tokens_.Return(kOther, InodeNumber(file), v1::TOKEN_NONE);
  const v1::Attr attr = Attributes(file);
  EXPECT_EQ(attr.atime().seconds(), set.atime().seconds());
  EXPECT_LT(attr.ctime().seconds(), attr.atime().seconds());
  EXPECT_EQ(attr.change(), 1u);
  set.mutable_atime()->set_seconds(attr.atime().seconds() + 10);
  set.set_only_if_due(true);
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_EQ(Attributes(file).atime().seconds(), attr.atime().seconds());
  set.set_only_if_due(false);
  set.mutable_atime()->set_seconds(5);  // older than what is known
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_EQ(reply_.attr().attr().atime().seconds(), attr.atime().seconds());
  set.set_fields(v1::SetAttr::ACCESSED | v1::SetAttr::MODE);
  EXPECT_EQ(SetAttr(set), EINVAL);
}

TEST_F(AttributesTest, ReadsOfManyFilesAreToldTogether) {
  const std::uint64_t one = MakeFile(kRoot, "1"), two = MakeFile(kRoot, "2");
  const std::int64_t read_time = now_.seconds + 900;
  now_.seconds += 1'000;
  v1::Request request;
  v1::Accessed& accessed = *request.mutable_accessed();
  const auto add = [&](std::uint64_t inode, std::int64_t seconds) {
    v1::Accessed::Read& read = *accessed.add_reads();
    read.set_inode(inode);
    read.mutable_time()->set_seconds(seconds);
  };
  add(one, read_time);
  add(one + 1'000, read_time);  // gone
  add(two, read_time + 10);
  EXPECT_EQ(Do(Accessed, request), 0);
  EXPECT_EQ(Attributes(one).atime().seconds(), read_time);
  EXPECT_EQ(Attributes(two).atime().seconds(), read_time + 10);
  EXPECT_EQ(Attributes(two).change(), 1u);
  accessed.set_only_if_due(true);
  accessed.mutable_reads(0)->mutable_time()->set_seconds(read_time + 20);
  EXPECT_EQ(Do(Accessed, request), 0);
  EXPECT_EQ(Attributes(one).atime().seconds(), read_time) << "by the rule of relatime";
}

TEST_F(AttributesTest, NoneOfMoreReadsThanAMessageTakesIsNoted) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  const std::int64_t before = Attributes(file).atime().seconds();
  now_.seconds += 1'000;
  v1::Request request;
  for (int i = 0; i <= kMaxReads; ++i) {
    v1::Accessed::Read& read = *request.mutable_accessed()->add_reads();
    read.set_inode(file);
    read.mutable_time()->set_seconds(now_.seconds);
  }
  EXPECT_EQ(Do(Accessed, request), EINVAL);
  request.mutable_accessed()->mutable_reads()->DeleteSubrange(1, kMaxReads);
  request.mutable_accessed()->mutable_reads(0)->mutable_time()->set_nanoseconds(1'000'000'000);
  EXPECT_EQ(Do(Accessed, request), EINVAL);
  EXPECT_EQ(Attributes(file).atime().seconds(), before);
}

// Anybody may say it of any inode: a time to come would hide every later read.
TEST_F(AttributesTest, AnAccessTimeInTheFutureIsCut) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  v1::SetAttr set = Set(file, v1::SetAttr::ACCESSED);
  set.mutable_atime()->set_seconds(now_.seconds + 1'000'000);
  EXPECT_EQ(SetAttr(set), 0);
  const std::int64_t read_time = Attributes(file).atime().seconds();
  EXPECT_LE(read_time, now_.seconds);
  now_.seconds += 10;
  EXPECT_EQ(SetAttr(set), 0);
  EXPECT_GT(Attributes(file).atime().seconds(), read_time);
}

TEST_F(AttributesTest, TruncationIsAChangeAlsoWhereTheSizeStays) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(Truncate(file, 100), 0);
  const v1::Attr before = Attributes(file);
  EXPECT_EQ(Truncate(file, 100), 0);
  EXPECT_GT(Attributes(file).ctime().seconds(), before.ctime().seconds());
  EXPECT_GT(Attributes(file).mtime().seconds(), before.mtime().seconds());
  EXPECT_GT(Attributes(file).change(), before.change());
}

TEST_F(AttributesTest, AnOwnerOutsideTheGroupPassesNoSetGroupIdOn) {
  credentials_.set_uid(10);
  credentials_.set_gid(20);
  for (const bool member : {false, true}) {
    const std::uint64_t file = MakeFile(kRoot, absl::StrCat("f", member));
    const std::uint64_t dir = MakeDir(kRoot, absl::StrCat("d", member));
    for (const std::uint64_t inode : {file, dir}) {
      v1::SetAttr set = Set(inode, v1::SetAttr::MODE | v1::SetAttr::GID);
      set.set_mode(02666);  // no group execution, so it lends no rights
      set.set_gid(77);
      credentials_.set_uid(0);
      ASSERT_EQ(SetAttr(set), 0);
      credentials_.set_uid(10);
    }
    if (member) credentials_.add_groups(77);
    for (const std::uint64_t inode : {file, dir}) {
      v1::SetAttr set = Set(inode, v1::SetAttr::GID);
      set.set_gid(20);
      ASSERT_EQ(SetAttr(set), 0);
      EXPECT_EQ((Attributes(inode).mode() & S_ISGID) != 0, member || inode == dir);
    }
  }
}

TEST_F(AttributesTest, SizesAreForRegularFiles) {
  const std::uint64_t file = MakeFile(kRoot, "f"), dir = MakeDir(kRoot, "d");
  std::uint64_t fifo = 0;
  EXPECT_EQ(Create(kRoot, "p", S_IFIFO, &fifo), 0);
  EXPECT_EQ(Truncate(file, 10'000), 0);
  EXPECT_EQ(reply_.attr().attr().size_bytes(), 10'000u);
  EXPECT_EQ(reply_.attr().attr().mtime().seconds(), now_.seconds);
  EXPECT_EQ(Truncate(dir, 0), EISDIR);
  EXPECT_EQ(Truncate(fifo, 0), EINVAL);
  EXPECT_EQ(Truncate(file, kMaxFileBytes + 1), EFBIG);
  EXPECT_EQ(Truncate(file, kMaxFileBytes), 0);
  EXPECT_EQ(Truncate(999, 0), ESTALE);
  ExpectSound();
}

TEST_F(AttributesTest, FlagsForbid) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(SetFlags(file, v1::INODE_FLAG_CASEFOLD), EOPNOTSUPP) << "of directories alone";
  EXPECT_EQ(SetFlags(file, v1::INODE_FLAG_OFFLINE), EOPNOTSUPP);
  EXPECT_EQ(SetFlags(file, v1::INODE_FLAG_APPEND), 0);
  EXPECT_EQ(Truncate(file, 0), EPERM);
  constexpr std::uint32_t kBothNow = v1::SetAttr::ATIME_NOW | v1::SetAttr::MTIME_NOW;
  EXPECT_EQ(SetAttr(Set(file, kBothNow)), 0);
  EXPECT_EQ(SetAttr(Set(file, v1::SetAttr::MTIME_NOW)), EPERM);
  EXPECT_EQ(SetAttr(Set(file, v1::SetAttr::MTIME)), EPERM);
  EXPECT_EQ(SetFlags(file, v1::INODE_FLAG_IMMUTABLE), 0);
  EXPECT_EQ(SetAttr(Set(file, kBothNow)), EPERM);
  EXPECT_EQ(SetXattr(file, "user.x", "1"), EPERM);
  EXPECT_EQ(SetFlags(file, 0), 0);
  EXPECT_EQ(Truncate(file, 0), 0);
}

TEST_F(AttributesTest, OthersTokensAreRecalledFirst) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  tokens_.Grant(kOther, InodeNumber(file), v1::TOKEN_SHARED);
  EXPECT_EQ(GetAttr(file), 0);
  EXPECT_EQ(SetAttr(Set(file, v1::SetAttr::MTIME_NOW)), 0);
  EXPECT_EQ(Truncate(file, 5), EAGAIN);
  EXPECT_EQ(blocked_, InodeNumber(file));
  tokens_.Return(kOther, InodeNumber(file), v1::TOKEN_NONE);
  EXPECT_EQ(Truncate(file, 5), 0);
  tokens_.Grant(kOther, InodeNumber(file), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(GetAttr(file), EAGAIN);
  EXPECT_EQ(GetAttr(file, kOther), 0);
  EXPECT_EQ(SetAttr(Set(file, v1::SetAttr::MTIME_NOW)), EAGAIN);
}

TEST_F(AttributesTest, StatFsCounts) {
  MakeFile(kRoot, "f");
  const std::uint64_t gone = MakeFile(kRoot, "g");
  Scatter(gone, 10);
  v1::Request request;
  request.mutable_stat_fs();
  EXPECT_EQ(Do(StatFs, request), 0);
  EXPECT_EQ(reply_.stat_fs().block_bytes(), 4096u);
  EXPECT_EQ(reply_.stat_fs().inodes(), 3u);
  EXPECT_EQ(reply_.stat_fs().total_blocks() - reply_.stat_fs().free_blocks(), 10u);
  EXPECT_EQ(Unlink(kRoot, "g"), 0);
  EXPECT_EQ(Do(StatFs, request), 0);
  EXPECT_EQ(reply_.stat_fs().inodes(), 2u);
  EXPECT_EQ(reply_.stat_fs().total_blocks(), reply_.stat_fs().free_blocks());
}

}  // namespace
}  // namespace reel::mdc
