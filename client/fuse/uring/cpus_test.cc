#include "client/fuse/uring/cpus.h"

#include <gmock/gmock.h>

namespace reel::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CpuList, HasRangesAndGaps) {
  EXPECT_THAT(ParseCpuList("0"), ElementsAre(0));
  EXPECT_THAT(ParseCpuList("0-2\n"), ElementsAre(0, 1, 2));
  EXPECT_THAT(ParseCpuList("0-1,4,6-7"), ElementsAre(0, 1, 4, 6, 7));
}

TEST(CpuList, TakesNothingElse) {
  for (const char* text : {"", "\n", "x", "3-", "-3", "2-1", "0-99999999", "0,,1"}) {
    EXPECT_THAT(ParseCpuList(text), IsEmpty()) << text;
  }
}

TEST(Cpus, ThisMachineHasSome) {
  EXPECT_FALSE(PossibleCpus().empty());
  EXPECT_FALSE(OnlineCpus().empty());
  EXPECT_LE(OnlineCpus().size(), PossibleCpus().size());
}

}  // namespace
}  // namespace reel::client
