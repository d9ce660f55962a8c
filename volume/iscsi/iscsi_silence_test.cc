// When a silent portal is asked, and when it is given up.
#include "volume/iscsi/iscsi_silence.h"

#include <gtest/gtest.h>

namespace reel {
namespace {

using Then = SilenceWatch::Then;

// One connection, whose socket is looked at and judged at the same time, unless said otherwise.
class SilenceTest : public testing::Test {
 protected:
  void Passes(std::uint64_t ms) { now_ += std::chrono::milliseconds(ms); }
  Then Looks() { return watch_.Look(now_, now_); }
  void Hears() { watch_.Heard(now_); }
  void IsAsked() {
    Looks();
    Passes(PortalSilenceMs());
    ASSERT_EQ(Looks(), Then::kAsk);
  }

  SilenceWatch watch_{true};
  SilenceWatch::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(SilenceTest, APortalThatTalksIsLetBe) {
  Looks();
  for (int i = 0; i < 100; ++i) {
    Passes(PortalSilenceMs() - 1);
    EXPECT_EQ(Looks(), Then::kNothing);
    Hears();
  }
}

TEST_F(SilenceTest, ASilentOneIsAskedOnceAndThenGivenUp) {
  IsAsked();
  Passes(PortalAnswerMs() - 1);
  EXPECT_EQ(Looks(), Then::kNothing);
  Passes(1);
  EXPECT_EQ(Looks(), Then::kGiveUp);
}

TEST_F(SilenceTest, WhateverComesIsAnAnswer) {
  IsAsked();
  Passes(PortalAnswerMs() - 1);
  Hears();
  Passes(1);
  EXPECT_EQ(Looks(), Then::kNothing);
  Passes(PortalSilenceMs());
  EXPECT_EQ(Looks(), Then::kAsk) << "and it is asked again when it falls silent again";
}

TEST_F(SilenceTest, AProcessThatStoodStillLooksAtItsSocketFirst) {
  IsAsked();
  const auto looked = now_;
  Passes(100 * PortalAnswerMs());
  EXPECT_EQ(watch_.Look(looked, now_), Then::kNothing);
  Hears();  // what had lain there
  EXPECT_EQ(Looks(), Then::kNothing);
}

TEST_F(SilenceTest, TheOnlyPortalIsNeverGivenUp) {
  SilenceWatch only(false);
  for (int i = 0; i < 3; ++i) {
    Passes(100 * PortalAnswerMs());
    EXPECT_EQ(only.Look(now_, now_), Then::kNothing);
  }
  EXPECT_EQ(only.idle_poll_ms(), -1);
}

}  // namespace
}  // namespace reel
