#include "client/inode/occupancy.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(Occupancy, UsersAreSharedOrExclusive) {
  Occupancy file;
  EXPECT_TRUE(file.EnterShared());
  EXPECT_TRUE(file.EnterShared());
  EXPECT_FALSE(file.EnterExclusive());
  file.LeaveShared();
  EXPECT_FALSE(file.EnterExclusive());
  file.LeaveShared();
  EXPECT_TRUE(file.EnterExclusive());
  EXPECT_FALSE(file.EnterExclusive());
  EXPECT_FALSE(file.EnterShared());
  EXPECT_FALSE(file.idle());
  file.LeaveExclusive();
  EXPECT_TRUE(file.idle());
}

TEST(Occupancy, NoUserOvertakesAnExclusiveWaiter) {
  Occupancy file;
  ASSERT_TRUE(file.EnterShared());
  file.BeginAwaitExclusive();
  file.BeginAwaitExclusive();
  EXPECT_FALSE(file.admits_shared());
  EXPECT_FALSE(file.EnterShared());
  EXPECT_TRUE(file.EnterShared(/*pinned=*/true)) << "they wait for its grant to be used";
  EXPECT_FALSE(file.EndAwaitExclusive());
  EXPECT_TRUE(file.EndAwaitExclusive());
  EXPECT_TRUE(file.EnterShared());
}

TEST(Occupancy, OneFetchesAtATime) {
  Occupancy file;
  ASSERT_TRUE(file.MayFetch(false));
  file.BeginFetch();
  EXPECT_FALSE(file.MayFetch(false));
  EXPECT_FALSE(file.MayFetchPages(true));
  EXPECT_FALSE(file.EnterExclusive());
  EXPECT_TRUE(file.EnterShared());
  EXPECT_TRUE(file.fetching());
  file.LeaveShared();
  file.EndFetch();
  EXPECT_TRUE(file.EnterExclusive());
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

TEST(Occupancy, ExclusiveWaitersHoldUpFetchesExceptForPages) {
  Occupancy file;
  file.BeginAwaitExclusive();
  EXPECT_FALSE(file.MayFetch(false));
  EXPECT_TRUE(file.MayFetch(true));
  EXPECT_TRUE(file.MayFetchPages(false));
}

TEST(Occupancy, AnExclusiveUserDoesNotWaitForPassingOnes) {
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
