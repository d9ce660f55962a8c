#include "client/inode/access_time.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

v1::Time At(std::int64_t seconds) {
  v1::Time time;
  time.set_seconds(seconds);
  return time;
}

v1::Attr ReadAt(std::int64_t atime, std::int64_t mtime) {
  v1::Attr attr;
  *attr.mutable_atime() = At(atime);
  *attr.mutable_mtime() = At(mtime);
  *attr.mutable_ctime() = At(mtime);
  return attr;
}

TEST(AccessTime, RelativeOnesMoveOnceAfterAChange) {
  AccessTime access;
  EXPECT_FALSE(access.Note(AtimePolicy::kRelative, ReadAt(100, 50), At(110)));
  EXPECT_FALSE(access.any());
  EXPECT_TRUE(access.Note(AtimePolicy::kRelative, ReadAt(100, 105), At(110)));
  EXPECT_FALSE(access.Note(AtimePolicy::kRelative, ReadAt(100, 105), At(111))) << "it is noted";
}

TEST(AccessTime, StrictOnesMoveWithEachReadThatIsLater) {
  AccessTime access;
  EXPECT_TRUE(access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(110)));
  EXPECT_FALSE(access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(110)));
  EXPECT_TRUE(access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(111)));
}

TEST(AccessTime, ShowsWhatIsLater) {
  AccessTime access;
  access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(110));
  v1::Attr attr = ReadAt(100, 50);
  access.Show(attr);
  EXPECT_EQ(attr.atime().seconds(), 110);
  attr = ReadAt(120, 50);
  access.Show(attr);
  EXPECT_EQ(attr.atime().seconds(), 120);
}

TEST(AccessTime, OneMessageIsUnderWay) {
  AccessTime access;
  EXPECT_FALSE(access.BeginWaiting()) << "nothing to tell";
  access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(110));
  EXPECT_TRUE(access.BeginWaiting());
  EXPECT_FALSE(access.BeginWaiting()) << "it waits already";
  EXPECT_EQ(access.BeginSending()->seconds(), 110);
  access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(111));
  EXPECT_FALSE(access.BeginWaiting()) << "a message is under way";
  access.Sent(At(110));
  EXPECT_TRUE(access.any()) << "it was read since";
  EXPECT_TRUE(access.BeginWaiting());
  EXPECT_EQ(access.BeginSending()->seconds(), 111);
  access.Sent(At(111));
  EXPECT_FALSE(access.any());
}

TEST(AccessTime, WhatIsForgottenIsNotTold) {
  AccessTime access;
  access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(110));
  EXPECT_TRUE(access.BeginWaiting());
  access.Forget();
  EXPECT_FALSE(access.BeginSending());
  access.Note(AtimePolicy::kStrict, ReadAt(100, 50), At(111));
  EXPECT_TRUE(access.BeginWaiting()) << "it waits no more";
}

}  // namespace
}  // namespace reel::client
