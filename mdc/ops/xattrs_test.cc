#include "mdc/ops/xattrs.h"

#include <linux/posix_acl.h>
#include <sys/xattr.h>

#include "mdc/ops/acl.h"
#include "mdc/ops/names.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

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

// Owner rwx, user 1000 as given, group r-x, mask and others as given.
std::string AclBytes(int user, int mask, int other) {
  std::string bytes{2, 0, 0, 0};
  const auto add = [&](int tag, int permissions, std::uint32_t id) {
    bytes += {static_cast<char>(tag), 0, static_cast<char>(permissions), 0};
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(id >> (8 * i)));
  };
  add(ACL_USER_OBJ, 7, ~0u);
  if (user >= 0) add(ACL_USER, user, 1000);
  add(ACL_GROUP_OBJ, 5, ~0u);
  if (user >= 0) add(ACL_MASK, mask, ~0u);
  add(ACL_OTHER, other, ~0u);
  return bytes;
}
const std::string kAccess(kAccessAcl), kDefault(kDefaultAcl);

TEST_F(XattrsTest, AccessAclAndModeFollowEachOther) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_FALSE(Attributes(file).xattrs());
  EXPECT_EQ(SetXattr(file, kAccess, "acl"), EINVAL);
  EXPECT_EQ(SetXattr(file, kAccess, AclBytes(6, 6, 1)), 0);
  EXPECT_EQ(Attributes(file).mode(), S_IFREG | 0761u);
  EXPECT_TRUE(Attributes(file).xattrs());
  v1::SetAttr chmod;
  chmod.set_inode(file);
  chmod.set_fields(v1::SetAttr::MODE);
  chmod.set_mode(0704);
  EXPECT_EQ(SetAttr(chmod), 0);
  EXPECT_EQ(GetXattr(file, kAccess), 0);
  EXPECT_EQ(reply_.data().data(), AclBytes(6, 0, 4));
  // One that the mode can say all of is no longer there.
  EXPECT_EQ(SetXattr(file, kAccess, AclBytes(-1, 0, 5)), 0);
  EXPECT_EQ(Attributes(file).mode(), S_IFREG | 0755u);
  EXPECT_EQ(GetXattr(file, kAccess), ENODATA);
  EXPECT_EQ(ListOf(file), "");
  EXPECT_EQ(SetXattr(file, kDefault, AclBytes(6, 6, 1)), EACCES);
  std::uint64_t link = 0;
  EXPECT_EQ(Create(kRoot, "l", S_IFLNK, &link, "x"), 0);
  EXPECT_EQ(SetXattr(link, kAccess, AclBytes(6, 6, 1)), EOPNOTSUPP);
  ExpectSound();
}

TEST_F(XattrsTest, AnAclClearsSetGroupIdForCallersOutsideTheGroup) {
  std::uint64_t file = 0;
  EXPECT_EQ(Create(kRoot, "f", S_IFREG | 02755, &file), 0);
  credentials_.set_uid(10);
  credentials_.set_gid(5);
  credentials_.add_groups(0);
  EXPECT_EQ(SetXattr(file, kAccess, AclBytes(6, 6, 1)), 0);
  EXPECT_EQ(Attributes(file).mode(), S_IFREG | 02761u);
  credentials_.clear_groups();
  EXPECT_EQ(SetXattr(file, kAccess, AclBytes(6, 6, 1)), 0);
  EXPECT_EQ(Attributes(file).mode(), S_IFREG | 0761u);
}

TEST_F(XattrsTest, DefaultAclsAreInherited) {
  const std::uint64_t dir = MakeDir(kRoot, "d");
  EXPECT_EQ(SetXattr(dir, kDefault, AclBytes(6, 7, 4)), 0);
  EXPECT_EQ(Attributes(dir).mode() & 0777, 0755u) << "a default ACL changes no mode";
  v1::Request request;
  v1::Create& create = *request.mutable_create();
  create.set_parent(dir);
  create.set_name("f");
  create.set_mode(S_IFREG | 0660);
  create.set_umask(077);
  EXPECT_EQ(Do(mdc::Create, request), 0);
  const std::uint64_t file = reply_.entry().attr().inode();
  EXPECT_EQ(reply_.entry().attr().mode(), S_IFREG | 0660u) << "the umask does not count";
  EXPECT_EQ(GetXattr(file, kAccess), 0);
  Acl expected = *Acl::Parse(AclBytes(6, 6, 0));
  expected.SetPermissionBits(0660);
  EXPECT_EQ(reply_.data().data(), expected.Serialize());
  EXPECT_EQ(GetXattr(file, kDefault), ENODATA);
  create.set_name("sub");
  create.set_mode(S_IFDIR | 0777);
  EXPECT_EQ(Do(mdc::Create, request), 0);
  const std::uint64_t sub = reply_.entry().attr().inode();
  EXPECT_EQ(Attributes(sub).mode(), S_IFDIR | 0774u);
  EXPECT_EQ(GetXattr(sub, kDefault), 0);
  EXPECT_EQ(reply_.data().data(), AclBytes(6, 7, 4));
  EXPECT_EQ(Drop(dir, kDefault), 0);
  create.set_name("g");
  create.set_mode(S_IFREG | 0666);
  EXPECT_EQ(Do(mdc::Create, request), 0);
  EXPECT_EQ(reply_.entry().attr().mode(), S_IFREG | 0600u) << "now the umask does";
  ExpectSound();
}

TEST_F(XattrsTest, TrustedXattrsAreForRoot) {
  const std::uint64_t file = MakeFile(kRoot, "f");
  EXPECT_EQ(SetXattr(file, "trusted.t", "x"), 0);
  EXPECT_EQ(GetXattr(file, "trusted.t"), 0);
  credentials_.set_uid(10);
  EXPECT_EQ(GetXattr(file, "trusted.t"), ENODATA);
  EXPECT_EQ(SetXattr(file, "trusted.t", "x"), EPERM);
  EXPECT_EQ(Drop(file, "trusted.t"), EPERM);
  EXPECT_EQ(ListOf(file), "");
}

TEST_F(XattrsTest, XattrsAreBoundedAndGoWithTheInode) {
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
