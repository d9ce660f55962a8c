#include "client/vfs/dir_handle.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "proto/status.h"

namespace reel::client {
namespace {

using Position = DirHandle::Position;

v1::ReadDirReply Listing(std::initializer_list<std::uint64_t> cookies, bool end) {
  v1::ReadDirReply reply;
  for (const std::uint64_t cookie : cookies) {
    v1::ReadDirReply::Entry& entry = *reply.add_entries();
    entry.set_cookie(cookie);
    entry.set_name("n" + std::to_string(cookie));
    entry.set_inode(100 + cookie);
  }
  reply.set_end(end);
  return reply;
}

absl::Status Keep(DirHandle& handle, std::uint64_t cookie, v1::ReadDirReply reply) {
  return handle.Keep(cookie, std::make_shared<const v1::ReadDirReply>(std::move(reply)));
}

// The cookie found behind `cookie`; 0 at the end, -1 when the handle does not know.
std::int64_t Behind(DirHandle& handle, std::uint64_t cookie) {
  const DirHandle::Found found = handle.Find(cookie);
  if (found.position == Position::kUnknown) return -1;
  return found.entry == nullptr ? 0 : static_cast<std::int64_t>(found.entry->cookie());
}

TEST(DirHandle, BeginsEmpty) {
  DirHandle handle(7);
  EXPECT_EQ(Behind(handle, 0), -1);
}

TEST(DirHandle, WalksAndSeeks) {
  DirHandle handle(7);
  ASSERT_TRUE(Keep(handle, 0, Listing({1, 2, 5, 9}, true)).ok());
  EXPECT_EQ(Behind(handle, 0), 1);
  EXPECT_EQ(Behind(handle, 1), 2);
  EXPECT_EQ(Behind(handle, 2), 5);
  EXPECT_EQ(Behind(handle, 5), 9);
  EXPECT_EQ(Behind(handle, 9), 0);
  EXPECT_EQ(Behind(handle, 2), 5);  // back again
  EXPECT_EQ(Behind(handle, 2), 5);  // and once more the same
  EXPECT_EQ(Behind(handle, 6), 9);  // an entry that is gone by now
}

TEST(DirHandle, ALaterPageKnowsOnlyItsEntries) {
  DirHandle handle(7);
  ASSERT_TRUE(Keep(handle, 9, Listing({10, 11}, false)).ok());
  EXPECT_EQ(Behind(handle, 8), -1);
  EXPECT_EQ(Behind(handle, 9), 10);
  EXPECT_EQ(Behind(handle, 11), -1);
}

TEST(DirHandle, AListingOmitsEntriesMadeAfterItBegan) {
  DirHandle handle(7);
  v1::ReadDirReply first = Listing({1, 2, 5}, false);
  first.set_next_cookie(8);
  ASSERT_TRUE(Keep(handle, 0, first).ok());
  v1::ReadDirReply second = Listing({7, 8, 9}, false);
  second.set_next_cookie(10);
  ASSERT_TRUE(Keep(handle, 5, second).ok());
  EXPECT_EQ(Behind(handle, 5), 7);
  EXPECT_EQ(Behind(handle, 7), 0);
  EXPECT_EQ(Behind(handle, 7), 0);
  first.set_next_cookie(10);  // rewinddir(3)
  ASSERT_TRUE(Keep(handle, 0, first).ok());
  ASSERT_TRUE(Keep(handle, 5, second).ok());
  EXPECT_EQ(Behind(handle, 7), 8);
  EXPECT_EQ(Behind(handle, 8), 9);
  EXPECT_EQ(Behind(handle, 9), -1);
}

TEST(DirHandle, AListingFromTheMiddleHasNoBound) {
  DirHandle handle(7);
  v1::ReadDirReply reply = Listing({6, 7}, true);
  reply.set_next_cookie(7);
  ASSERT_TRUE(Keep(handle, 5, reply).ok());
  EXPECT_EQ(Behind(handle, 6), 7);
}

TEST(DirHandle, RefusesEntriesOutOfOrder) {
  DirHandle handle(7);
  v1::ReadDirReply slash = Listing({1}, true);
  slash.mutable_entries(0)->set_name("a/b");
  const v1::ReadDirReply bad[] = {Listing({2, 1}, true), Listing({1, 1}, true),
                                  Listing({std::uint64_t{1} << 63}, true), Listing({}, false),
                                  slash};
  for (const v1::ReadDirReply& reply : bad) {
    EXPECT_EQ(ErrnoOf(Keep(handle, 0, reply)), EIO) << reply.ShortDebugString();
    EXPECT_EQ(Behind(handle, 0), -1);
  }
  EXPECT_EQ(ErrnoOf(Keep(handle, 5, Listing({5}, true))), EIO);
}

TEST(DirHandle, MissesALossOnceAndOnlyOneSinceItWasOpened) {
  DirHandle early(7, false, {}, /*losses=*/2), late(7, false, {}, /*losses=*/3);
  EXPECT_FALSE(early.Missed(2));
  EXPECT_TRUE(early.Missed(3));
  EXPECT_FALSE(early.Missed(3));
  EXPECT_FALSE(late.Missed(3));
}

}  // namespace
}  // namespace reel::client
