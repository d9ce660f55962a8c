#include "mdc/sessions/grace.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr SessionId kOneSession(1), kOtherSession(2);

TEST(Grace, EndsWhenTheLastSessionLeaves) {
  Grace grace;
  EXPECT_FALSE(grace.on());
  grace.HoldUp(kOneSession);
  grace.HoldUp(kOtherSession);
  EXPECT_TRUE(grace.on());
  EXPECT_FALSE(grace.Leave(kOtherSession));
  EXPECT_TRUE(grace.on());
  EXPECT_TRUE(grace.Leave(kOneSession));
  EXPECT_FALSE(grace.on());
}

TEST(Grace, LeavingAgainEndsNothing) {
  Grace grace;
  grace.HoldUp(kOneSession);
  grace.HoldUp(kOtherSession);
  EXPECT_FALSE(grace.Leave(kOneSession));
  EXPECT_FALSE(grace.Leave(kOneSession));
  EXPECT_TRUE(grace.Leave(kOtherSession));
  EXPECT_FALSE(grace.Leave(kOtherSession));  // it is over once
}

TEST(Grace, SessionsThatDidAgainWhatWasLostAreTakenOnce) {
  Grace grace;
  grace.DidAgain(kOtherSession);
  grace.DidAgain(kOneSession);
  grace.DidAgain(kOtherSession);
  EXPECT_EQ(grace.TakeDone(), kOneSession);
  EXPECT_EQ(grace.TakeDone(), kOtherSession);
  EXPECT_EQ(grace.TakeDone(), std::nullopt);
}

}  // namespace
}  // namespace reel::mdc
