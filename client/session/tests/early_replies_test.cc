#include "client/session/early_replies.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(EarlyReplies, TheLastPromiseNeverGoesBack) {
  EarlyReplies early;
  early.Promised(3);
  early.Promised(2);
  EXPECT_EQ(early.last(), 3U);
}

TEST(EarlyReplies, AllUpToTheConfirmedNumberIsConfirmed) {
  EarlyReplies early;
  early.Promised(3);
  early.ConfirmedUpTo(2);
  EXPECT_TRUE(early.Confirmed(2));
  EXPECT_FALSE(early.Confirmed(3));
}

TEST(EarlyReplies, ALossIsReportedToEverySyncThatKnewOfFewer) {
  EarlyReplies early;
  EXPECT_FALSE(early.TakeLoss(0));
  early.NoteLoss();
  EXPECT_TRUE(early.TakeLoss(0));
  EXPECT_TRUE(early.TakeLoss(0));
  EXPECT_FALSE(early.TakeLoss(1));
}

TEST(EarlyReplies, ALossIsReportedOnceAlsoWhereItWasKnown) {
  EarlyReplies early;
  early.NoteLoss();
  EXPECT_TRUE(early.TakeLoss(1));
  EXPECT_FALSE(early.TakeLoss(1));
}

TEST(EarlyReplies, OneSyncIsOnItsWayAtATime) {
  EarlyReplies early;
  EXPECT_TRUE(early.BeginSync());
  EXPECT_FALSE(early.BeginSync());
  early.EndSync();
  EXPECT_TRUE(early.BeginSync());
}

}  // namespace
}  // namespace reel::client
