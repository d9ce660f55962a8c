#include "client/inode/occupancy.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(Occupancy, UsersWorkBesideEachOtherOrAlone) {
  Occupancy file;
  EXPECT_TRUE(file.EnterShared());
  EXPECT_TRUE(file.EnterShared());
  EXPECT_FALSE(file.EnterAlone());
  file.LeaveShared();
  EXPECT_FALSE(file.EnterAlone());
  file.LeaveShared();
  EXPECT_TRUE(file.EnterAlone());
  EXPECT_FALSE(file.EnterAlone());
  EXPECT_FALSE(file.EnterShared());
  EXPECT_FALSE(file.idle());
  file.LeaveAlone();
  EXPECT_TRUE(file.idle());
}

TEST(Occupancy, NobodyOvertakesThoseThatWaitToWorkAlone) {
  Occupancy file;
  ASSERT_TRUE(file.EnterShared());
  file.BeginAwaitAlone();
  file.BeginAwaitAlone();
  EXPECT_FALSE(file.admits_shared());
  EXPECT_FALSE(file.EnterShared());
  EXPECT_TRUE(file.EnterShared(/*pinned=*/true)) << "they wait for its grant to be used";
  EXPECT_FALSE(file.EndAwaitAlone());
  EXPECT_TRUE(file.EndAwaitAlone());
  EXPECT_TRUE(file.EnterShared());
}

TEST(Occupancy, OneFetchesAtATime) {
  Occupancy file;
  ASSERT_TRUE(file.MayFetch(false));
  file.BeginFetch();
  EXPECT_FALSE(file.MayFetch(false));
  EXPECT_FALSE(file.MayFetchPages(true));
  EXPECT_FALSE(file.EnterAlone());
  EXPECT_TRUE(file.EnterShared());
  EXPECT_TRUE(file.fetching());
  file.LeaveShared();
  file.EndFetch();
  EXPECT_TRUE(file.EnterAlone());
  EXPECT_FALSE(file.MayFetch(false));
  EXPECT_FALSE(file.MayFetchPages(false));
}

TEST(Occupancy, AGrantIsUsedBeforeTheNextFetch) {
  Occupancy file;
  file.Pin();
  EXPECT_FALSE(file.idle());
  EXPECT_FALSE(file.MayFetch(false));
  EXPECT_TRUE(file.MayFetch(true)) << "its own";
  file.Pin();
  EXPECT_FALSE(file.MayFetch(true));
  file.Unpin();
  file.Unpin();
  EXPECT_TRUE(file.MayFetch(false));
  EXPECT_TRUE(file.idle());
}

TEST(Occupancy, ThoseThatWaitToWorkAloneHoldUpFetchesButThoseOfPages) {
  Occupancy file;
  file.BeginAwaitAlone();
  EXPECT_FALSE(file.MayFetch(false));
  EXPECT_TRUE(file.MayFetch(true));
  EXPECT_TRUE(file.MayFetchPages(false));
}

TEST(Occupancy, WhoPassesARecallIsNotWaitedFor) {
  Occupancy file;
  ASSERT_TRUE(file.EnterShared());
  EXPECT_TRUE(file.IdleBut(1));
  ASSERT_TRUE(file.EnterShared());
  EXPECT_FALSE(file.IdleBut(1));
  file.LeaveShared();
  file.Pin();
  EXPECT_FALSE(file.IdleBut(1));
}

}  // namespace
}  // namespace reel::client
