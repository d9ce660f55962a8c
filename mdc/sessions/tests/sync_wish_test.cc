#include "mdc/sessions/sync_wish.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

TEST(SyncWish, ABatchInHasteIsSyncedOnce) {
  SyncWish sync;
  EXPECT_FALSE(sync.Take(true));
  sync.Applied(Haste::kNow);
  EXPECT_TRUE(sync.Take(false));
  EXPECT_FALSE(sync.Take(true));
}

TEST(SyncWish, AnotherBatchWaitsUntilItIsAskedFor) {
  SyncWish sync;
  sync.Applied(Haste::kWhenAsked);
  EXPECT_FALSE(sync.Take(false));
  EXPECT_TRUE(sync.Take(true));
  sync.Applied(Haste::kWhenAsked);
  sync.AskForAll();
  EXPECT_TRUE(sync.Take(false));
  EXPECT_FALSE(sync.Take(true));
}

TEST(SyncWish, NothingIsAskedForWhereNothingWasApplied) {
  SyncWish sync;
  sync.AskForAll();
  EXPECT_FALSE(sync.Take(true));
  sync.Ask();
  EXPECT_TRUE(sync.Take(false));
}

}  // namespace
}  // namespace reel::mdc
