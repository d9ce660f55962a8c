#include "mdc/sessions/lun_sights.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mdc/sessions/cut_off_log.h"

namespace reel::mdc {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const std::string kLun(16, 'a'), kOther(16, 'b');

TEST(LunSights, ALunIsReachedByARecentLookAlone) {
  LunSights sights;
  EXPECT_FALSE(sights.Reaches(kLun, 1000));
  sights.Seen({*Uuid::FromBytes(kOther)}, 1000);
  EXPECT_TRUE(sights.AnyLost());
  EXPECT_TRUE(sights.Reaches(kLun, 1000));
  EXPECT_FALSE(sights.Reaches(kOther, 1000));
  EXPECT_TRUE(sights.Reaches(kLun, 1000 + 3 * ReservationWatchMs()));
  EXPECT_FALSE(sights.Reaches(kLun, 1001 + 3 * ReservationWatchMs()));
}

TEST(LunSights, TheLastLookCounts) {
  LunSights sights;
  sights.Seen({*Uuid::FromBytes(kLun)}, 1000);
  sights.Seen({}, 2000);
  EXPECT_FALSE(sights.AnyLost());
  EXPECT_TRUE(sights.Reaches(kLun, 2000));
}

TEST(CutOffLog, ShowsTheLastOnesForAnHour) {
  CutOffLog log;
  for (std::size_t i = 0; i < CutOffLog::kMost + 2; ++i) log.Add(1000 + i, std::to_string(i));
  const auto shown = log.Shown(2000);
  ASSERT_THAT(shown, SizeIs(CutOffLog::kMost));
  EXPECT_EQ(shown.front().what, "2");
  EXPECT_EQ(shown.front().ago_ms, 998u);
  EXPECT_THAT(log.Shown(1002 + CutOffLog::kShownMs), SizeIs(CutOffLog::kMost));
  EXPECT_THAT(log.Shown(1003 + CutOffLog::kShownMs), SizeIs(CutOffLog::kMost - 1));
  EXPECT_THAT(log.Shown(5000 + CutOffLog::kShownMs), IsEmpty());
}

}  // namespace
}  // namespace reel::mdc
