#include "mdc/sessions/releases.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr SessionId kNear(1), kFar(2);

TEST(Releases, SessionsGoInTheirOrderAndOnce) {
  Releases releases(10);
  releases.Add(kFar);
  releases.Add(kNear);
  releases.Add(kFar);
  EXPECT_EQ(releases.First(), kFar);
  releases.FirstIsDone();
  EXPECT_EQ(releases.First(), kNear);
  releases.FirstIsDone();
  EXPECT_EQ(releases.First(), std::nullopt);
  EXPECT_TRUE(releases.empty());
}

TEST(Releases, AReleasedSessionMayBeReleasedAgain) {
  Releases releases(10);
  releases.Add(kNear);
  releases.FirstIsDone();
  releases.Add(kNear);
  EXPECT_EQ(releases.First(), kNear);
}

TEST(Releases, ATurnHasRoomForSoManyAndAllAreCounted) {
  Releases releases(10);
  releases.Spend(4);
  EXPECT_EQ(releases.room(), 6u);
  releases.Spend(9);  // one inode may have several
  EXPECT_EQ(releases.room(), 0u);
  releases.BeginTurn();
  EXPECT_EQ(releases.room(), 10u);
  EXPECT_EQ(releases.released(), 13u);
}

}  // namespace
}  // namespace reel::mdc
