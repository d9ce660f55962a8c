#include "mdc/ops/access.h"

#include <unistd.h>

#include "mdc/ops/attributes.h"
#include "mdc/testing/op_fixture.h"

namespace reel::mdc {
namespace {

constexpr std::uint32_t kNobody = 65534;

// Things made by root and by a user, and asked for by a squashed root.
class AccessTest : public OpFixture {
 protected:
  std::uint64_t Make(std::uint64_t parent, const std::string& name, std::uint32_t mode,
                     std::uint32_t uid, std::uint32_t gid = 0) {
    credentials_.set_uid(uid);
    credentials_.set_gid(gid);
    std::uint64_t made = 0;
    EXPECT_EQ(Create(parent, name, mode, &made), 0);
    return made;
  }
  int Check(const v1::Request& request) {
    credentials_.set_uid(kNobody);
    credentials_.set_gid(kNobody);
    return ErrnoOf(InContext(kMe, [&](OpContext& ctx) { return CheckAccess(ctx, request); }));
  }
  int MayCreate(std::uint64_t parent) {
    v1::Request request;
    request.mutable_create()->set_parent(parent);
    return Check(request);
  }
  int MayMake(std::uint64_t parent, std::uint32_t mode, std::uint64_t rdev) {
    v1::Request request;
    request.mutable_create()->set_parent(parent);
    request.mutable_create()->set_mode(mode);
    request.mutable_create()->set_rdev(rdev);
    return Check(request);
  }
  int MayUnlink(std::uint64_t parent, const std::string& name) {
    v1::Request request;
    request.mutable_unlink()->set_parent(parent);
    request.mutable_unlink()->set_name(name);
    return Check(request);
  }
  int MayRename(std::uint64_t parent, const std::string& name, std::uint64_t to,
                const std::string& new_name) {
    v1::Request request;
    request.mutable_rename()->set_parent(parent);
    request.mutable_rename()->set_name(name);
    request.mutable_rename()->set_new_parent(to);
    request.mutable_rename()->set_new_name(new_name);
    return Check(request);
  }
  int MayOpen(std::uint64_t inode, std::uint32_t access) {
    v1::Request request;
    request.mutable_open()->set_inode(inode);
    request.mutable_open()->set_access(access);
    return Check(request);
  }
  int MaySet(std::uint64_t inode, std::uint32_t fields, std::uint32_t id = 0) {
    v1::Request request;
    v1::SetAttr& set = *request.mutable_set_attr();
    set.set_inode(inode);
    set.set_fields(fields);
    set.set_uid(id);
    set.set_gid(id);
    return Check(request);
  }
};

TEST_F(AccessTest, FilesByOwnerGroupAndOthers) {
  const std::uint64_t mine = Make(kRoot, "mine", S_IFREG | 0400, kNobody);
  const std::uint64_t groups = Make(kRoot, "groups", S_IFREG | 0060, 7, kNobody);
  const std::uint64_t others = Make(kRoot, "others", S_IFREG | 0664, 7, 7);
  EXPECT_EQ(MayOpen(mine, R_OK), 0);
  EXPECT_EQ(MayOpen(mine, W_OK), EACCES);
  EXPECT_EQ(MayOpen(groups, R_OK | W_OK), 0);
  EXPECT_EQ(MayOpen(others, R_OK), 0);
  EXPECT_EQ(MayOpen(others, R_OK | W_OK), EACCES);
  EXPECT_EQ(MayOpen(12345, R_OK), 0);  // the operation says that it is not there
}

TEST_F(AccessTest, AnAccessAclCounts) {
  const std::uint64_t file = Make(kRoot, "f", S_IFREG | 0600, 7, 7);
  const auto entry = [](char tag, char permissions, std::uint32_t id) {
    std::string bytes{tag, 0, permissions, 0};
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(id >> (8 * i)));
    return bytes;
  };
  constexpr std::uint32_t kNone = 0xffffffff;
  credentials_.set_uid(0);
  ASSERT_EQ(SetXattr(file, "system.posix_acl_access",
                     std::string{2, 0, 0, 0} + entry(1, 6, kNone) + entry(2, 6, kNobody) +
                         entry(4, 0, kNone) + entry(16, 4, kNone) + entry(32, 0, kNone)),
            0);
  EXPECT_EQ(MayOpen(file, R_OK), 0);
  EXPECT_EQ(MayOpen(file, R_OK | W_OK), EACCES);  // the mask
}

TEST_F(AccessTest, Directories) {
  const std::uint64_t open = Make(kRoot, "open", S_IFDIR | 0777, 0);
  const std::uint64_t closed = Make(kRoot, "closed", S_IFDIR | 0700, 0);
  const std::uint64_t write_only = Make(kRoot, "write_only", S_IFDIR | 0772, 0);
  EXPECT_EQ(MayCreate(open), 0);
  EXPECT_EQ(MayCreate(closed), EACCES);
  EXPECT_EQ(MayCreate(write_only), EACCES);  // and no search
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(closed);
  EXPECT_EQ(Check(lookup), EACCES);
  v1::Request list;
  list.mutable_read_dir()->set_inode(closed);
  EXPECT_EQ(Check(list), EACCES);
  list.mutable_read_dir()->set_inode(open);
  EXPECT_EQ(Check(list), 0);
}

TEST_F(AccessTest, AttributesThatACommitBringsAreCheckedAlone) {
  const std::uint64_t mine = Make(kRoot, "mine", S_IFREG | 0600, kNobody);
  const std::uint64_t roots = Make(kRoot, "roots", S_IFREG | 0666, 0);
  for (const std::uint64_t inode : {mine, roots}) {
    v1::Request request;
    v1::SetAttr& set = *request.mutable_layout_commit()->mutable_attributes();
    request.mutable_layout_commit()->set_inode(inode);
    set.set_inode(inode);
    set.set_fields(v1::SetAttr::MODE);
    EXPECT_EQ(Check(request), 0) << "the bytes are committed";
    int refused = -1;
    const absl::Status done = InContext(kMe, [&](OpContext& ctx) -> absl::Status {
      const auto record = ctx.txn.Inode(InodeNumber(inode));
      if (!record.ok()) return record.status();
      const auto along = SetAttributesAlong(ctx, InodeNumber(inode), set, **record);
      if (along.ok()) refused = *along;
      return along.status();
    });
    EXPECT_TRUE(done.ok()) << done;
    EXPECT_EQ(refused, inode == mine ? 0 : EPERM);
  }
}

TEST_F(AccessTest, ASquashedCallerMakesNoDevices) {
  const std::uint64_t open = Make(kRoot, "open", S_IFDIR | 0777, 0);
  EXPECT_EQ(MayMake(open, S_IFBLK | 0666, 0x801), EPERM);
  EXPECT_EQ(MayMake(open, S_IFCHR | 0666, 0x101), EPERM);
  EXPECT_EQ(MayMake(open, S_IFBLK | 0666, 0), EPERM);
  EXPECT_EQ(MayMake(open, S_IFCHR, 0), 0);  // a whiteout
  EXPECT_EQ(MayMake(open, S_IFIFO | 0666, 0), 0);
  EXPECT_EQ(MayMake(open, S_IFSOCK | 0666, 0x801), 0);
}

TEST_F(AccessTest, StickyDirectories) {
  const std::uint64_t sticky = Make(kRoot, "tmp", S_IFDIR | 01777, 0);
  const std::uint64_t open = Make(kRoot, "open", S_IFDIR | 0777, 0);
  Make(sticky, "theirs", S_IFREG | 0666, 7);
  Make(sticky, "mine", S_IFREG | 0600, kNobody);
  EXPECT_EQ(MayUnlink(sticky, "theirs"), EPERM);
  EXPECT_EQ(MayUnlink(sticky, "mine"), 0);
  EXPECT_EQ(MayUnlink(sticky, "absent"), 0);
  EXPECT_EQ(MayRename(sticky, "theirs", open, "x"), EPERM);
  EXPECT_EQ(MayRename(sticky, "mine", sticky, "theirs"), EPERM);
  EXPECT_EQ(MayRename(sticky, "mine", open, "x"), 0);
}

TEST_F(AccessTest, MovingADirectoryNeedsWritePermissionOnIt) {
  const std::uint64_t from = Make(kRoot, "from", S_IFDIR | 0777, 0);
  const std::uint64_t to = Make(kRoot, "to", S_IFDIR | 0777, 0);
  Make(from, "fixed", S_IFDIR | 0755, 0);
  Make(from, "free", S_IFDIR | 0777, 0);
  EXPECT_EQ(MayRename(from, "fixed", to, "x"), EACCES);
  EXPECT_EQ(MayRename(from, "fixed", from, "x"), 0);
  EXPECT_EQ(MayRename(from, "free", to, "x"), 0);
}

// What comes without an open, nobody has checked.
TEST_F(AccessTest, NothingIsFetchedAheadOfOpensThatAreChecked) {
  v1::Request listing;
  listing.mutable_read_dir()->set_inode(kRoot);
  listing.mutable_read_dir()->set_attributes(true);
  EXPECT_EQ(Check(listing), 0);
  listing.mutable_read_dir()->set_layouts(1);
  EXPECT_EQ(Check(listing), EACCES);
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(kRoot);
  EXPECT_EQ(Check(lookup), 0);
  lookup.mutable_lookup()->set_ahead(true);
  EXPECT_EQ(Check(lookup), EACCES);
}

TEST_F(AccessTest, Attributes) {
  using v1::SetAttr;
  const std::uint64_t theirs = Make(kRoot, "theirs", S_IFREG | 0666, 7);
  const std::uint64_t mine = Make(kRoot, "mine", S_IFREG | 0444, kNobody, kNobody);
  EXPECT_EQ(MaySet(theirs, SetAttr::MODE), EPERM);
  EXPECT_EQ(MaySet(mine, SetAttr::MODE), 0);
  EXPECT_EQ(MaySet(mine, SetAttr::UID, 0), EPERM);
  EXPECT_EQ(MaySet(mine, SetAttr::UID, kNobody), 0);
  EXPECT_EQ(MaySet(mine, SetAttr::GID, 5), EPERM);
  EXPECT_EQ(MaySet(mine, SetAttr::SIZE), 0);  // by a descriptor of its own, whatever the mode
  EXPECT_EQ(MaySet(theirs, SetAttr::SIZE), 0);
  EXPECT_EQ(MaySet(theirs, SetAttr::MTIME), EPERM);
  EXPECT_EQ(MaySet(theirs, SetAttr::MTIME_NOW), 0);
  const std::uint64_t read_only = Make(kRoot, "read_only", S_IFREG | 0644, 7);
  EXPECT_EQ(MaySet(read_only, SetAttr::SIZE), EACCES);
  EXPECT_EQ(MaySet(read_only, SetAttr::MTIME_NOW), EACCES);
  EXPECT_EQ(MaySet(read_only, SetAttr::KILL_SUID_SGID), EACCES);
  // A size lets nothing else through.
  EXPECT_EQ(MaySet(theirs, SetAttr::SIZE | SetAttr::MTIME_NOW), 0);
  EXPECT_EQ(MaySet(theirs, SetAttr::SIZE | SetAttr::MTIME), EPERM);
  EXPECT_EQ(MaySet(theirs, SetAttr::SIZE | SetAttr::ATIME), EPERM);
  EXPECT_EQ(MaySet(theirs, SetAttr::SIZE | SetAttr::CTIME), EPERM);
  EXPECT_EQ(MaySet(mine, SetAttr::SIZE | SetAttr::MTIME), 0);
}

TEST_F(AccessTest, ExtendedAttributes) {
  const std::uint64_t file = Make(kRoot, "f", S_IFREG | 0644, 7);
  v1::Request request;
  request.mutable_set_xattr()->set_inode(file);
  request.mutable_set_xattr()->set_name("user.a");
  EXPECT_EQ(Check(request), EACCES);
  request.mutable_set_xattr()->set_name("system.posix_acl_access");
  EXPECT_EQ(Check(request), EPERM);
  request.mutable_set_xattr()->set_name("security.capability");
  EXPECT_EQ(Check(request), EPERM);
  request.mutable_get_xattr()->set_inode(file);
  request.mutable_get_xattr()->set_name("user.a");
  EXPECT_EQ(Check(request), 0);
}

}  // namespace
}  // namespace reel::mdc
