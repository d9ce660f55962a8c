#include "mdc/tables/session_inodes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr SessionId kA(1), kB(2);

TEST(SessionInodesTest, TheLowestComeFirstAndEachSessionHasItsOwn) {
  SessionInodes inodes;
  for (const std::uint64_t inode : {7, 3, 5}) inodes.Hold(kA, InodeNumber(inode));
  inodes.Hold(kB, InodeNumber(4));
  EXPECT_EQ(inodes.CountOf(kA), 3u);
  EXPECT_THAT(inodes.Lowest(kA, 2), ElementsAre(InodeNumber(3), InodeNumber(5)));
  EXPECT_THAT(inodes.Lowest(kB, 9), ElementsAre(InodeNumber(4)));
}

TEST(SessionInodesTest, WantedInodesAreListedFromAPlaceOn) {
  SessionInodes inodes;
  for (const std::uint64_t inode : {3, 5, 7, 9}) inodes.Hold(kA, InodeNumber(inode));
  for (const std::uint64_t inode : {3, 5, 9}) inodes.Want(kA, InodeNumber(inode));
  EXPECT_THAT(inodes.Wanted(kA, InodeNumber(4), 9), ElementsAre(InodeNumber(5), InodeNumber(9)));
  EXPECT_THAT(inodes.Wanted(kA, InodeNumber(0), 1), ElementsAre(InodeNumber(3)));
  inodes.Keep(kA, InodeNumber(5));
  EXPECT_THAT(inodes.Wanted(kA, InodeNumber(4), 9), ElementsAre(InodeNumber(9)));
}

TEST(SessionInodesTest, ADroppedInodeIsWantedNoMore) {
  SessionInodes inodes;
  inodes.Hold(kA, InodeNumber(3));
  inodes.Want(kA, InodeNumber(3));
  inodes.Drop(kA, InodeNumber(3));
  inodes.Drop(kA, InodeNumber(3));
  EXPECT_EQ(inodes.CountOf(kA), 0u);
  EXPECT_THAT(inodes.Wanted(kA, InodeNumber(0), 9), IsEmpty());
  inodes.Hold(kA, InodeNumber(3));
  EXPECT_THAT(inodes.Wanted(kA, InodeNumber(0), 9), IsEmpty());
}

}  // namespace
}  // namespace reel::mdc
