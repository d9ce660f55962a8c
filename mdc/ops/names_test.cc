#include "mdc/ops/names.h"

#include <linux/fs.h>

#include "mdc/ops/attributes.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

using NamesTest = OpFixture;

TEST_F(NamesTest, CreateFillsTheInode) {
  credentials_.set_uid(10);
  credentials_.set_gid(20);
  std::uint64_t file = 0;
  ASSERT_EQ(Create(kRoot, "f", S_IFREG | 04755, &file), 0);
  const v1::Attr attr = Attributes(file);
  EXPECT_EQ(attr.mode(), S_IFREG | 04755u);
  EXPECT_EQ(attr.nlink(), 1u);
  EXPECT_EQ(attr.uid(), 10u);
  EXPECT_EQ(attr.gid(), 20u);
  EXPECT_EQ(attr.size_bytes(), 0u);
  EXPECT_EQ(attr.change(), 1u);
  EXPECT_NE(attr.generation(), 0u);
  EXPECT_EQ(attr.btime().seconds(), attr.mtime().seconds());
  EXPECT_EQ(Attributes(kRoot).mtime().seconds(), attr.btime().seconds());
  EXPECT_EQ(Attributes(kRoot).size_bytes(), 32u);
  EXPECT_EQ(Lookup(kRoot, "f"), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), file);
  ExpectSound();
}

TEST_F(NamesTest, CreateRefusesWhatCannotBe) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(Create(kRoot, "f", S_IFREG), EEXIST);
  EXPECT_EQ(Create(kRoot, ".", S_IFDIR), EEXIST);
  EXPECT_EQ(Create(kRoot, "..", S_IFDIR), EEXIST);
  EXPECT_EQ(Create(kRoot, "", S_IFREG), ENOENT);
  EXPECT_EQ(Create(kRoot, std::string(256, 'x'), S_IFREG), ENAMETOOLONG);
  EXPECT_EQ(Create(kRoot, "a/b", S_IFREG), EINVAL);
  EXPECT_EQ(Create(file, "x", S_IFREG), ENOTDIR);
  EXPECT_EQ(Create(999, "x", S_IFREG), ESTALE);
  EXPECT_EQ(Create(kRoot, "x", 0170000), EINVAL);
  EXPECT_EQ(Create(kRoot, "l", S_IFLNK, nullptr, ""), ENOENT);
  EXPECT_EQ(Create(kRoot, "l", S_IFLNK, nullptr, std::string(4096, 'x')), ENAMETOOLONG);
  const std::uint64_t gone = MakeDir(kRoot, "gone");
  opens_.Open(kMe, InodeNumber(gone));
  EXPECT_EQ(Rmdir(kRoot, "gone"), 0);
  EXPECT_EQ(Create(gone, "x", S_IFREG), ENOENT);
  v1::Request unnamed;
  unnamed.mutable_create()->set_parent(gone);
  unnamed.mutable_create()->set_mode(S_IFREG | 0600);
  unnamed.mutable_create()->set_open(true);
  unnamed.mutable_create()->set_unnamed(true);
  EXPECT_EQ(Do(mdc::Create, unnamed), EPERM);
  EXPECT_EQ(Lookup(gone, ".."), ENOENT);
  ExpectSound();
}

TEST_F(NamesTest, EveryKindOfInode) {
  std::uint64_t link = 0;
  EXPECT_EQ(Create(kRoot, "link", S_IFLNK | 0600, &link, "to/there"), 0);
  EXPECT_EQ(Attributes(link).mode(), S_IFLNK | 0777u);
  EXPECT_EQ(Attributes(link).size_bytes(), 8u);
  v1::Request read;
  read.mutable_read_link()->set_inode(link);
  EXPECT_EQ(Do(ReadLink, read), 0);
  EXPECT_EQ(reply_.data().data(), "to/there");
  read.mutable_read_link()->set_inode(kRoot);
  EXPECT_EQ(Do(ReadLink, read), EINVAL);
  EXPECT_EQ(Create(kRoot, "fifo", S_IFIFO | 0600), 0);
  EXPECT_EQ(Create(kRoot, "socket", S_IFSOCK | 0600), 0);
  v1::Request device;
  device.mutable_create()->set_parent(kRoot);
  device.mutable_create()->set_name("device");
  device.mutable_create()->set_mode(S_IFCHR | 0600);
  device.mutable_create()->set_rdev(0x103);
  EXPECT_EQ(Do(mdc::Create, device), 0);
  EXPECT_EQ(reply_.entry().attr().rdev(), 0x103u);
  EXPECT_EQ(Create(kRoot, "plain", 0644), 0);  // mknod(2) without a type
  EXPECT_EQ(reply_.entry().attr().mode(), S_IFREG | 0644u);
  ExpectSound();
}

TEST_F(NamesTest, CreateCanOpen) {
  v1::Request request;
  request.mutable_create()->set_parent(kRoot);
  request.mutable_create()->set_name("f");
  request.mutable_create()->set_mode(S_IFREG | 0644);
  request.mutable_create()->set_open(true);
  EXPECT_EQ(Do(mdc::Create, request), 0);
  const InodeNumber inode(reply_.entry().attr().inode());
  EXPECT_TRUE(opens_.IsOpenBy(kMe, inode));
  EXPECT_EQ(Do(mdc::Create, request), EEXIST);
  EXPECT_TRUE(opens_.IsOpenBy(kMe, inode));
}

TEST_F(NamesTest, SetGroupIdDirectoriesPassTheirGroupOn) {
  const std::uint64_t shared = MakeDir(kRoot, "shared");
  v1::SetAttr set;
  set.set_inode(shared);
  set.set_fields(v1::SetAttr::MODE | v1::SetAttr::GID);
  set.set_mode(02775);
  set.set_gid(77);
  EXPECT_EQ(SetAttr(set), 0);
  credentials_.set_uid(10);
  credentials_.set_gid(20);
  EXPECT_EQ(Create(shared, "d", S_IFDIR | 0755), 0);
  EXPECT_EQ(reply_.entry().attr().gid(), 77u);
  EXPECT_EQ(reply_.entry().attr().mode(), S_IFDIR | 02755u);
  EXPECT_EQ(Create(shared, "f", S_IFREG | 02755), 0);
  EXPECT_EQ(reply_.entry().attr().gid(), 77u);
  EXPECT_EQ(reply_.entry().attr().mode(), S_IFREG | 0755u);  // not in the group
  credentials_.add_groups(77);
  EXPECT_EQ(Create(shared, "g", S_IFREG | 02755), 0);
  EXPECT_EQ(reply_.entry().attr().mode(), S_IFREG | 02755u);
}

TEST_F(NamesTest, UnnamedFilesLiveWhileTheyAreOpen) {
  v1::Request request;
  v1::Create& create = *request.mutable_create();
  create.set_parent(kRoot);
  create.set_mode(S_IFREG | 0600);
  create.set_open(true);
  create.set_unnamed(true);
  EXPECT_EQ(Do(mdc::Create, request), 0);
  const std::uint64_t temporary = reply_.entry().attr().inode();
  EXPECT_EQ(Attributes(temporary).nlink(), 0u);
  EXPECT_EQ(Attributes(kRoot).size_bytes(), 0u);
  EXPECT_EQ(Link(temporary, kRoot, "t"), ENOENT) << "opened with O_EXCL";
  Reap();
  EXPECT_EQ(GetAttr(temporary), 0);
  opens_.Close(kMe, InodeNumber(temporary));
  Reap();
  EXPECT_EQ(GetAttr(temporary), ESTALE);

  create.set_linkable(true);
  EXPECT_EQ(Do(mdc::Create, request), 0);
  const std::uint64_t kept = reply_.entry().attr().inode();
  EXPECT_EQ(Link(kept, kRoot, "k"), 0);
  EXPECT_EQ(Attributes(kept).nlink(), 1u);
  EXPECT_EQ(Attributes(kept).flags(), 0u);
  opens_.Close(kMe, InodeNumber(kept));
  Reap();
  EXPECT_EQ(GetAttr(kept), 0);
  EXPECT_EQ(Unlink(kRoot, "k"), 0);
  EXPECT_EQ(GetAttr(kept), ESTALE);
  create.set_name("named");
  EXPECT_EQ(Do(mdc::Create, request), EINVAL);
  ExpectSound();
}

TEST_F(NamesTest, DotAndDotDot) {
  const std::uint64_t plain = MakeFile(kRoot, "plain");
  EXPECT_EQ(Lookup(plain, "."), 0) << "as the kernel finds the inode of a handle";
  EXPECT_EQ(Lookup(plain, ".."), ENOTDIR);
  const std::uint64_t a = MakeDir(kRoot, "a");
  const std::uint64_t b = MakeDir(a, "b");
  EXPECT_EQ(Lookup(b, "."), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), b);
  EXPECT_EQ(Lookup(b, ".."), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), a);
  EXPECT_EQ(Lookup(kRoot, ".."), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), kRoot);
  EXPECT_EQ(Lookup(kRoot, "none"), ENOENT);
  EXPECT_EQ(Lookup(MakeFile(kRoot, "f"), "x"), ENOTDIR);
}

TEST_F(NamesTest, LinksCount) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  const std::uint64_t dir = MakeDir(kRoot, "d");
  EXPECT_EQ(Link(file, dir, "g"), 0);
  EXPECT_EQ(reply_.entry().attr().nlink(), 2u);
  EXPECT_EQ(Link(file, dir, "g"), EEXIST);
  EXPECT_EQ(Link(dir, kRoot, "e"), EPERM);
  EXPECT_EQ(Link(999, kRoot, "e"), ESTALE);
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  EXPECT_EQ(Attributes(file).nlink(), 1u);
  opens_.Open(kMe, InodeNumber(file));
  EXPECT_EQ(Unlink(dir, "g"), 0);
  EXPECT_EQ(Attributes(file).nlink(), 0u);
  EXPECT_EQ(Link(file, kRoot, "again"), ENOENT);
  ExpectSound();
}

TEST_F(NamesTest, TooManyLinks) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_TRUE(InContext(kMe, [&](OpContext& ctx) {
                (*ctx.txn.Inode(InodeNumber(file)))->set_nlink(65'000);
                ctx.txn.Changed(InodeNumber(file));
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(Link(file, kRoot, "g"), EMLINK);
}

TEST_F(NamesTest, UnlinkAndRmdir) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  const std::uint64_t dir = MakeDir(kRoot, "d");
  EXPECT_EQ(Attributes(kRoot).nlink(), 3u);
  MakeFile(dir, "x");
  EXPECT_EQ(Rmdir(kRoot, "f"), ENOTDIR);
  EXPECT_EQ(Unlink(kRoot, "d"), EISDIR);
  EXPECT_EQ(Rmdir(kRoot, "d"), ENOTEMPTY);
  EXPECT_EQ(Unlink(kRoot, "none"), ENOENT);
  EXPECT_EQ(Rmdir(kRoot, "."), EINVAL);
  EXPECT_EQ(Rmdir(kRoot, ".."), ENOTEMPTY);
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  EXPECT_EQ(GetAttr(file), ESTALE);  // nobody had it open
  EXPECT_EQ(Unlink(dir, "x"), 0);
  EXPECT_EQ(Rmdir(kRoot, "d"), 0);
  EXPECT_EQ(GetAttr(dir), ESTALE);
  EXPECT_EQ(Attributes(kRoot).nlink(), 2u);
  EXPECT_EQ(Attributes(kRoot).size_bytes(), 0u);
  ExpectSound();
}

TEST_F(NamesTest, ImmutableAndAppendOnlyStayAsTheyAre) {
  const std::uint64_t dir = MakeDir(kRoot, "d");
  const std::uint64_t file = MakeFile(dir, "f");
  EXPECT_EQ(SetFlags(file, v1::INODE_FLAG_IMMUTABLE), 0);
  EXPECT_EQ(Unlink(dir, "f"), EPERM);
  EXPECT_EQ(Link(file, dir, "g"), EPERM);
  EXPECT_EQ(Rename(dir, "f", kRoot, "f"), EPERM);
  EXPECT_EQ(SetFlags(file, 0), 0);
  EXPECT_EQ(SetFlags(dir, v1::INODE_FLAG_APPEND), 0);
  EXPECT_EQ(Create(dir, "more", S_IFREG), 0);
  EXPECT_EQ(Unlink(dir, "f"), EPERM);
  EXPECT_EQ(Rename(dir, "f", kRoot, "f"), EPERM);
  EXPECT_EQ(SetFlags(dir, v1::INODE_FLAG_IMMUTABLE), 0);
  EXPECT_EQ(Create(dir, "still", S_IFREG), EPERM);
  EXPECT_EQ(Create(dir, "more", S_IFREG), EEXIST);
  EXPECT_EQ(Unlink(dir, "none"), ENOENT);
  credentials_.set_uid(10);
  EXPECT_EQ(SetFlags(dir, 0), EPERM);
}

TEST_F(NamesTest, NumbersAreNeverReused) {
  const std::uint64_t first = MakeFile(kRoot, "a");
  EXPECT_EQ(Unlink(kRoot, "a"), 0);
  EXPECT_GT(MakeFile(kRoot, "a"), first);
  // An operation that takes a number and does not commit must not leave its range uncovered.
  Restart();
  EXPECT_FALSE(InContext(kMe, [&](OpContext& ctx) {
                 EXPECT_TRUE(ctx.inode_numbers.Take(ctx.txn).ok());
                 return absl::InternalError("given up");
               }).ok());
  const std::uint64_t before = MakeFile(kRoot, "b");
  Restart();
  EXPECT_GT(MakeFile(kRoot, "c"), before);
  ExpectSound();
}

TEST_F(NamesTest, LookupWaitsForAnExclusiveHolder) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  tokens_.Grant(kOther, InodeNumber(file), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(Lookup(kRoot, "f"), EAGAIN);
  EXPECT_EQ(blocked_, InodeNumber(file));
  EXPECT_EQ(Lookup(kRoot, "f", kOther), 0);
  tokens_.Return(kOther, InodeNumber(file), v1::TOKEN_SHARED);
  EXPECT_EQ(Lookup(kRoot, "f"), 0);
}

// ---- rename
// --------------------------------------------------------------------------------------

TEST_F(NamesTest, RenameMoves) {
  const std::uint64_t a = MakeDir(kRoot, "a"), b = MakeDir(kRoot, "b");
  const std::uint64_t sub = MakeDir(a, "sub");
  EXPECT_EQ(Rename(a, "sub", b, "moved"), 0);
  EXPECT_EQ(Lookup(a, "sub"), ENOENT);
  EXPECT_EQ(Lookup(b, "moved"), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), sub);
  EXPECT_EQ(Lookup(sub, ".."), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), b);
  EXPECT_EQ(Attributes(a).nlink(), 2u);
  EXPECT_EQ(Attributes(b).nlink(), 3u);
  EXPECT_EQ(Rename(b, "moved", b, "again"), 0);
  EXPECT_EQ(Attributes(b).nlink(), 3u);
  ExpectSound();
}

TEST_F(NamesTest, RenameReplaces) {
  const std::uint64_t a = MakeFile(kRoot, "a"), b = MakeFile(kRoot, "b");
  EXPECT_EQ(Rename(kRoot, "a", kRoot, "b", RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(Rename(kRoot, "a", kRoot, "b"), 0);
  EXPECT_EQ(GetAttr(b), ESTALE);
  EXPECT_EQ(Lookup(kRoot, "b"), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), a);
  const std::uint64_t d = MakeDir(kRoot, "d"), e = MakeDir(kRoot, "e");
  EXPECT_EQ(Rename(kRoot, "b", kRoot, "d"), EISDIR);
  EXPECT_EQ(Rename(kRoot, "d", kRoot, "b"), ENOTDIR);
  MakeFile(e, "x");
  EXPECT_EQ(Rename(kRoot, "d", kRoot, "e"), ENOTEMPTY);
  EXPECT_EQ(Unlink(e, "x"), 0);
  EXPECT_EQ(Rename(kRoot, "d", kRoot, "e"), 0);
  EXPECT_EQ(GetAttr(e), ESTALE);
  EXPECT_EQ(Attributes(d).nlink(), 2u);
  EXPECT_EQ(Attributes(kRoot).nlink(), 3u);
  EXPECT_EQ(Link(a, kRoot, "b2"), 0);
  EXPECT_EQ(Rename(kRoot, "b", kRoot, "b2"), 0);  // two names of one inode: both stay
  EXPECT_EQ(Attributes(a).nlink(), 2u);
  ExpectSound();
}

TEST_F(NamesTest, RenameMakesNoLoops) {
  const std::uint64_t a = MakeDir(kRoot, "a"), b = MakeDir(a, "b"), c = MakeDir(b, "c");
  EXPECT_EQ(Rename(kRoot, "a", c, "x"), EINVAL);
  EXPECT_EQ(Rename(kRoot, "a", a, "x"), EINVAL);
  EXPECT_EQ(Rename(kRoot, "a", b, "c", RENAME_EXCHANGE), EINVAL);
  EXPECT_EQ(Rename(b, "c", kRoot, "a", RENAME_EXCHANGE), EINVAL);
  EXPECT_EQ(Rename(b, "c", kRoot, "a"), ENOTEMPTY);
  EXPECT_EQ(Rename(a, "b", kRoot, "b"), 0);
  EXPECT_EQ(Rename(kRoot, "a", c, "x"), 0);
  ExpectSound();
}

TEST_F(NamesTest, RenameExchanges) {
  const std::uint64_t d = MakeDir(kRoot, "d");
  const std::uint64_t sub = MakeDir(d, "sub"), file = MakeFile(kRoot, "f");
  EXPECT_EQ(Rename(d, "sub", kRoot, "f", RENAME_EXCHANGE), 0);
  EXPECT_EQ(Lookup(kRoot, "f"), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), sub);
  EXPECT_EQ(Lookup(d, "sub"), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), file);
  EXPECT_EQ(Attributes(d).nlink(), 2u);
  EXPECT_EQ(Attributes(kRoot).nlink(), 4u);
  EXPECT_EQ(Lookup(sub, ".."), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), kRoot);
  EXPECT_EQ(Rename(d, "sub", kRoot, "none", RENAME_EXCHANGE), ENOENT);
  EXPECT_EQ(Rename(d, "sub", kRoot, "f", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
  EXPECT_EQ(Rename(d, "sub", kRoot, "f", RENAME_EXCHANGE | RENAME_WHITEOUT), EINVAL);
  EXPECT_EQ(Rename(d, "sub", kRoot, "f", 8), EINVAL);
  EXPECT_EQ(Rename(d, ".", kRoot, "x"), EBUSY);
  ExpectSound();
}

TEST_F(NamesTest, RenameLeavesAWhiteout) {
  const std::uint64_t d = MakeDir(kRoot, "d"), sub = MakeDir(d, "sub");
  const std::uint64_t file = MakeFile(d, "f"), other = MakeFile(kRoot, "other");
  const auto expect_whiteout = [&](std::uint64_t parent, const std::string& name) {
    EXPECT_EQ(Lookup(parent, name), 0);
    EXPECT_EQ(reply_.entry().attr().mode(), std::uint32_t{S_IFCHR});
    EXPECT_EQ(reply_.entry().attr().rdev(), 0u);
    EXPECT_EQ(reply_.entry().attr().nlink(), 1u);
    return reply_.entry().attr().inode();
  };
  EXPECT_EQ(Rename(d, "f", kRoot, "other", RENAME_WHITEOUT | RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(Rename(d, "f", kRoot, "other", RENAME_WHITEOUT), 0);
  const std::uint64_t number = reply_.entry().attr().inode();
  EXPECT_EQ(expect_whiteout(d, "f"), number);
  EXPECT_EQ(GetAttr(other), ESTALE);
  EXPECT_EQ(Rename(d, "sub", d, "moved", RENAME_WHITEOUT), 0);
  expect_whiteout(d, "sub");
  EXPECT_EQ(Attributes(d).nlink(), 3u);
  EXPECT_EQ(Rename(d, "moved", kRoot, "moved", RENAME_WHITEOUT | RENAME_NOREPLACE), 0);
  EXPECT_EQ(Attributes(d).nlink(), 2u);
  EXPECT_EQ(Lookup(sub, ".."), 0);
  EXPECT_EQ(reply_.entry().attr().inode(), kRoot);
  EXPECT_EQ(List(d).size(), 5u) << "three whiteouts";
  // Two names of one inode: both stay, and nothing is left.
  EXPECT_EQ(Link(file, kRoot, "twice"), 0);
  reply_.Clear();
  EXPECT_EQ(Rename(kRoot, "other", kRoot, "twice", RENAME_WHITEOUT), 0);
  EXPECT_FALSE(reply_.has_entry());
  EXPECT_EQ(Attributes(file).nlink(), 2u);
  EXPECT_EQ(Unlink(d, "f"), 0);
  EXPECT_EQ(GetAttr(number), ESTALE);
  ExpectSound();
}

}  // namespace
}  // namespace reel::mdc
