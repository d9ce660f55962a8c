#include "mdc/ops/xattrs.h"

#include <sys/xattr.h>

#include "mdc/ops/op_fixture.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kRoot = 1;

class XattrsTest : public OpFixture {
 protected:
  std::string ListOf(std::uint64_t inode) {
    v1::Request request;
    request.mutable_list_xattr()->set_inode(inode);
    EXPECT_EQ(Do(ListXattr, request), 0);
    return reply_.data().data();
  }
  int Drop(std::uint64_t inode, std::string name) {
    v1::Request request;
    request.mutable_remove_xattr()->set_inode(inode);
    request.mutable_remove_xattr()->set_name(std::move(name));
    return Do(RemoveXattr, request);
  }
};

TEST_F(XattrsTest, SetGetListRemove) {
  using std::string_literals::operator""s;
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(GetXattr(file, "user.a"), ENODATA);
  EXPECT_EQ(SetXattr(file, "user.a", "one", XATTR_REPLACE), ENODATA);
  EXPECT_EQ(SetXattr(file, "user.a", "one", XATTR_CREATE), 0);
  EXPECT_EQ(SetXattr(file, "user.a", "two", XATTR_CREATE), EEXIST);
  EXPECT_EQ(SetXattr(file, "user.b", ""), 0);
  EXPECT_EQ(SetXattr(file, "user.a", "three"), 0);
  EXPECT_EQ(GetXattr(file, "user.a"), 0);
  EXPECT_EQ(reply_.data().data(), "three");
  EXPECT_EQ(GetXattr(file, "user.b"), 0);
  EXPECT_EQ(ListOf(file), "user.a\0user.b\0"s);
  EXPECT_EQ(Drop(file, "user.a"), 0);
  EXPECT_EQ(Drop(file, "user.a"), ENODATA);
  EXPECT_EQ(ListOf(file), "user.b\0"s);
  EXPECT_EQ(Drop(file, "user.b"), 0);
  EXPECT_EQ(ListOf(file), "");
  ExpectSound();
}

TEST_F(XattrsTest, NamespacesAndBounds) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(SetXattr(file, "system.posix_acl_access", "acl"), 0);
  EXPECT_EQ(SetXattr(file, "system.posix_acl_default", "acl"), EACCES);
  EXPECT_EQ(SetXattr(file, "system.other", "x"), EOPNOTSUPP);
  EXPECT_EQ(SetXattr(file, "plain", "x"), EOPNOTSUPP);
  EXPECT_EQ(SetXattr(file, "user.", "x"), EINVAL);
  EXPECT_EQ(SetXattr(file, "user." + std::string(251, 'x'), "x"), ERANGE);
  EXPECT_EQ(SetXattr(file, "user.big", std::string(64 * 1024 + 1, 'x')), E2BIG);
  EXPECT_EQ(SetXattr(file, "user.big", std::string(64 * 1024, 'x')), 0);
  EXPECT_EQ(SetXattr(file, "user.x", "x", 4), EINVAL);
  std::uint64_t fifo = 0;
  EXPECT_EQ(Create(kRoot, "p", S_IFIFO, &fifo), 0);
  EXPECT_EQ(SetXattr(fifo, "user.x", "x"), EPERM);
  EXPECT_EQ(GetXattr(fifo, "user.x"), ENODATA);
}

TEST_F(XattrsTest, TrustedIsForRootAlone) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(SetXattr(file, "trusted.t", "x"), 0);
  EXPECT_EQ(GetXattr(file, "trusted.t"), 0);
  credentials_.set_uid(10);
  EXPECT_EQ(GetXattr(file, "trusted.t"), ENODATA);
  EXPECT_EQ(SetXattr(file, "trusted.t", "x"), EPERM);
  EXPECT_EQ(Drop(file, "trusted.t"), EPERM);
  EXPECT_EQ(ListOf(file), "");
}

TEST_F(XattrsTest, ManyAreBoundedAndGoWithTheInode) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  int error = 0;
  int count = 0;
  while ((error = SetXattr(file, absl::StrCat("user.", 10'000 + count), "x")) == 0) ++count;
  EXPECT_EQ(error, ENOSPC);
  EXPECT_EQ(count, 64 * 1024 / 11);
  EXPECT_EQ(Unlink(kRoot, "f"), 0);
  EXPECT_LE(last_batch_changes_, 1100u);
  ExpectSound();
  EXPECT_GE(Reap(), 5);
  EXPECT_EQ(GetAttr(file), ESTALE);
  EXPECT_EQ(SetXattr(MakeFile(kRoot, "f"), "user.x", "x"), 0);
  ExpectSound();
}

}  // namespace
}  // namespace reel::mdc
