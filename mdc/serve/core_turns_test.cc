#include "mdc/serve/core_turns.h"

#include <gtest/gtest.h>

namespace reel::mdc {
namespace {

TEST(CoreTurns, OneHasTheSeatAtATime) {
  CoreTurns turns;
  EXPECT_TRUE(turns.Visit());
  EXPECT_FALSE(turns.Visit());
  EXPECT_FALSE(turns.TakeWanted());
  turns.Leave(/*more=*/false);
  EXPECT_FALSE(turns.wanted());
  EXPECT_TRUE(turns.TakeWanted());
  EXPECT_FALSE(turns.Visit());
}

TEST(CoreTurns, NoVisitorGoesBeforeTheResident) {
  CoreTurns turns;
  EXPECT_TRUE(turns.Visit());
  turns.Want();
  turns.Leave(/*more=*/false);
  EXPECT_FALSE(turns.Visit());
  EXPECT_TRUE(turns.TakeWanted());
  turns.Leave(/*more=*/false);
  EXPECT_TRUE(turns.Visit());
}

TEST(CoreTurns, EventsThatAreLeftBehindAreTheResidents) {
  CoreTurns turns;
  EXPECT_TRUE(turns.Visit());
  turns.Leave(/*more=*/true);
  EXPECT_TRUE(turns.wanted());
  EXPECT_FALSE(turns.Visit());
  EXPECT_TRUE(turns.TakeWanted());
  EXPECT_FALSE(turns.wanted());
}

}  // namespace
}  // namespace reel::mdc
