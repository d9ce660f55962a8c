// When free space is said to run out, and how often.
#include "mdc/space/space_watch.h"

#include "gmock/gmock.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

class SpaceWatchTest : public testing::Test {
 protected:
  std::optional<std::string> Look(std::uint64_t free) {
    return watch_.Look("space", free << 20, 1'000 << 20, limits_);
  }
  SpaceWatch watch_;
  SpaceLimits limits_;
};

TEST_F(SpaceWatchTest, EachCrossingIsToldOnce) {
  EXPECT_EQ(Look(101), std::nullopt);
  EXPECT_THAT(watch_.Alarms(), IsEmpty());
  EXPECT_THAT(Look(99), Optional(HasSubstr("space runs low")));
  EXPECT_EQ(Look(80), std::nullopt);
  EXPECT_THAT(watch_.Alarms(), ElementsAre(HasSubstr("80 MiB (8 %)")));
  EXPECT_THAT(Look(49), Optional(HasSubstr("nearly used up")));
  EXPECT_EQ(Look(0), std::nullopt);
  EXPECT_THAT(watch_.Alarms(), ElementsAre(HasSubstr("nearly used up")));
}

TEST_F(SpaceWatchTest, OneAtTheLimitIsNotToldOfAgainAndAgain) {
  EXPECT_NE(Look(99), std::nullopt);
  for (const std::uint64_t free : {101, 99, 110, 95, 119}) EXPECT_EQ(Look(free), std::nullopt);
  EXPECT_THAT(Look(121), Optional(HasSubstr("ample again")));
  EXPECT_THAT(watch_.Alarms(), IsEmpty());
  EXPECT_THAT(Look(40), Optional(HasSubstr("nearly used up")));
  EXPECT_EQ(Look(59), std::nullopt);
  EXPECT_THAT(Look(61), Optional(HasSubstr("runs low")));
}

TEST_F(SpaceWatchTest, ALimitOfNothingIsNone) {
  limits_ = {.low = 0, .critical = 0};
  EXPECT_EQ(Look(0), std::nullopt);
  EXPECT_THAT(watch_.Alarms(), IsEmpty());
}

TEST_F(SpaceWatchTest, LooksAreASecondApart) {
  EXPECT_TRUE(watch_.IsDue(5));
  EXPECT_FALSE(watch_.IsDue(1'004));
  EXPECT_TRUE(watch_.IsDue(1'005));
}

}  // namespace
}  // namespace reel::mdc
