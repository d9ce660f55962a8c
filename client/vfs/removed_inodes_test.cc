#include "client/vfs/removed_inodes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>

#include "proto/status.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kInode = 7;

v1::Time At(std::int64_t seconds) {
  v1::Time time;
  time.set_seconds(seconds);
  return time;
}

class RemovedInodesTest : public testing::Test {
 protected:
  RemovedInodesTest() {
    v1::Attr attr;
    attr.set_inode(kInode);
    attr.set_mode(S_IFDIR | 0755);
    attr.set_nlink(2);
    attr.set_xattrs(true);
    removed_.Add(attr, At(1));
  }
  int Set(const std::string& name, const std::string& value, std::uint32_t flags = 0) {
    v1::SetXattr set;
    set.set_inode(kInode);
    set.set_name(name);
    set.set_value(value);
    set.set_flags(flags);
    return ErrnoOf(removed_.SetXattr(set, At(2)));
  }
  int Get(const std::string& name) { return ErrnoOf(removed_.GetXattr(kInode, name).status()); }

  RemovedInodes removed_;
};

TEST_F(RemovedInodesTest, ARemovedInodeLivesUntilItIsForgotten) {
  EXPECT_EQ(removed_.Find(kInode)->nlink(), 0u);
  EXPECT_EQ(removed_.Find(kInode)->ctime().seconds(), 1);
  v1::SetAttr set;
  set.set_inode(kInode);
  set.set_fields(v1::SetAttr::MODE | v1::SetAttr::UID);
  set.set_mode(0700);
  set.set_uid(5);
  const auto changed = removed_.Set(set, At(3));
  EXPECT_EQ(changed->mode(), S_IFDIR | 0700u);
  EXPECT_EQ(changed->uid(), 5u);
  EXPECT_EQ(changed->ctime().seconds(), 3);
  set.set_fields(v1::SetAttr::SIZE);
  EXPECT_FALSE(removed_.Set(set, At(4)).has_value()) << "the controller's alone";
  removed_.Forget(kInode);
  EXPECT_FALSE(removed_.Has(kInode));
  EXPECT_EQ(Get("user.a"), ESTALE);
  EXPECT_EQ(Set("user.a", "1"), ESTALE);
}

TEST_F(RemovedInodesTest, TakesExtendedAttributes) {
  EXPECT_EQ(Get("user.a"), ENODATA);
  EXPECT_EQ(Set("user.a", "1", XATTR_REPLACE), ENODATA);
  EXPECT_EQ(Set("user.a", "1", XATTR_CREATE), 0);
  EXPECT_EQ(Set("user.a", "2", XATTR_CREATE), EEXIST);
  EXPECT_EQ(Set("user.a", "3", XATTR_REPLACE), 0);
  EXPECT_EQ(Set("trusted.b", ""), 0);
  EXPECT_EQ(*removed_.GetXattr(kInode, "user.a"), "3");
  EXPECT_EQ(*removed_.ListXattr(kInode), std::string("trusted.b\0user.a\0", 17));
  EXPECT_EQ(removed_.Find(kInode)->ctime().seconds(), 2);
  EXPECT_EQ(ErrnoOf(removed_.RemoveXattr(kInode, "user.a", At(9))), 0);
  EXPECT_EQ(ErrnoOf(removed_.RemoveXattr(kInode, "user.a", At(9))), ENODATA);
  EXPECT_EQ(removed_.Find(kInode)->ctime().seconds(), 9);
}

TEST_F(RemovedInodesTest, ARemovedInodeLearnsOfLaterWrites) {
  v1::Attr written = *removed_.Find(kInode);
  written.set_size_bytes(777);
  written.mutable_mtime()->set_seconds(8);
  removed_.Learn(written);
  EXPECT_EQ(removed_.Find(kInode)->size_bytes(), 777u);
  EXPECT_EQ(removed_.Find(kInode)->mtime().seconds(), 8);
  EXPECT_EQ(removed_.Find(kInode)->nlink(), 0u);
  written.set_inode(kInode + 1);
  removed_.Learn(written);
  EXPECT_FALSE(removed_.Has(kInode + 1));
}

TEST_F(RemovedInodesTest, ARemovedInodesXattrsAreBounded) {
  const std::string half(RemovedInodes::kMaxXattrBytes / 2 - 8, 'v');
  EXPECT_EQ(Set("user.a", half), 0);
  EXPECT_EQ(Set("user.b", half), 0);
  EXPECT_EQ(Set("user.c", "more than is left"), ENOSPC);
  EXPECT_EQ(Set("user.b", half), 0) << "in place of what was there";
}

}  // namespace
}  // namespace reel::client
