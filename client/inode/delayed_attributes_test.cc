#include "client/inode/delayed_attributes.h"

#include <sys/stat.h>

#include "gtest/gtest.h"

namespace reel::client {
namespace {

using v1::SetAttr;

v1::Attr FileAttr() {
  v1::Attr attr;
  attr.set_inode(7);
  attr.set_mode(S_IFREG | 0600);
  attr.mutable_ctime()->set_seconds(100);
  return attr;
}

SetAttr Set(std::uint32_t fields, std::uint32_t mode = 0) {
  SetAttr set;
  set.set_inode(7);
  set.set_fields(fields);
  set.set_mode(mode);
  return set;
}

TEST(DelayedAttributes, OnlyAttributesWithoutSideEffectsAreDelayed) {
  EXPECT_TRUE(MayBeDelayed(Set(SetAttr::MODE, 0644), FileAttr()));
  EXPECT_TRUE(MayBeDelayed(Set(SetAttr::UID | SetAttr::GID), FileAttr()));
  EXPECT_TRUE(MayBeDelayed(Set(SetAttr::ATIME | SetAttr::MTIME_NOW), FileAttr()));
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::FIELD_NONE), FileAttr()));
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::MODE | SetAttr::SIZE, 0644), FileAttr()));
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::FLAGS), FileAttr()));
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::MODE, 04755), FileAttr())) << "set-user-id";
  v1::Attr attr = FileAttr();
  attr.set_mode(S_IFREG | 02755);
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::UID), attr)) << "it would go";
  attr = FileAttr();
  attr.set_xattrs(true);
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::MODE, 0644), attr)) << "an ACL would follow";
  attr = FileAttr();
  attr.set_flags(v1::INODE_FLAG_IMMUTABLE);
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::MODE, 0644), attr));
  attr.set_flags(v1::INODE_FLAG_INLINE);
  EXPECT_TRUE(MayBeDelayed(Set(SetAttr::MODE, 0644), attr)) << "a small file is like any other";
  attr = FileAttr();
  attr.set_mode(S_IFDIR | 0755);
  EXPECT_FALSE(MayBeDelayed(Set(SetAttr::MODE, 0700), attr)) << "it has no data token";
}

TEST(DelayedAttributes, TimesAreThoseOfTheCall) {
  const SetAttr delayed =
      DelayedPart(Set(SetAttr::ATIME_NOW | SetAttr::MODE, 0644), FileAttr(), {500, 6});
  EXPECT_EQ(delayed.fields(), SetAttr::ATIME | SetAttr::MODE | SetAttr::CTIME);
  EXPECT_EQ(delayed.atime().seconds(), 500);
  EXPECT_EQ(delayed.ctime().nanoseconds(), 6);
  EXPECT_TRUE(delayed.only_if_due()) << "ctime never goes back";
  EXPECT_EQ(DelayedPart(Set(SetAttr::UID), FileAttr(), {7, 0}).ctime().seconds(), 100)
      << "slow clock";
  EXPECT_EQ(DelayedPart(Set(SetAttr::UID), FileAttr(), {7, 0}).ctime().nanoseconds(), 1u);
}

TEST(DelayedAttributes, TheLaterOfTwoSettingsCounts) {
  SetAttr delayed = DelayedPart(Set(SetAttr::MODE, 0644), FileAttr(), {200, 0});
  SetAttr owner = Set(SetAttr::UID);
  owner.set_uid(12);
  MergeDelayed(DelayedPart(owner, FileAttr(), {300, 0}), delayed);
  MergeDelayed(DelayedPart(Set(SetAttr::MODE, 0640), FileAttr(), {400, 0}), delayed);
  v1::Attr attr = FileAttr();
  ShowDelayed(delayed, attr);
  EXPECT_EQ(attr.mode(), S_IFREG | 0640u);
  EXPECT_EQ(attr.uid(), 12u);
  EXPECT_EQ(attr.ctime().seconds(), 400);
  attr.mutable_ctime()->set_seconds(500);
  ShowDelayed(delayed, attr);
  EXPECT_EQ(attr.ctime().seconds(), 500) << "something else has changed since";
}

}  // namespace
}  // namespace reel::client
