#include "mdc/sessions/delegations.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr SessionId kMaker(1);
constexpr InodeNumber kDirectory(7), kMade(8);

TEST(Delegations, ADirectoryIsIdleWhenNothingWasReservedThereForLong) {
  Delegations delegations(2'000);
  delegations.reserved().Add(kMaker, kDirectory, {.inode = kMade, .runs = {}}, 50'000);
  EXPECT_TRUE(delegations.LookForIdle(50'000 + Delegations::kIdleMs - 1).empty());
  const auto idle = delegations.LookForIdle(51'000 + Delegations::kIdleMs);
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0], std::pair(kMaker, kDirectory));
}

TEST(Delegations, LooksAreFarBetween) {
  Delegations delegations(2'000);
  delegations.reserved().Add(kMaker, kDirectory, {.inode = kMade, .runs = {}}, 0);
  EXPECT_FALSE(delegations.LookForIdle(50'000).empty());
  EXPECT_TRUE(delegations.LookForIdle(50'000 + Delegations::kLookMs - 1).empty());
  EXPECT_FALSE(delegations.LookForIdle(50'000 + Delegations::kLookMs).empty());
}

}  // namespace
}  // namespace reel::mdc
