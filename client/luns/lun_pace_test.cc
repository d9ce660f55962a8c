#include "client/luns/lun_pace.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(LunPaceTest, FewRequestsGiveNoPace) {
  LunPace pace(64);
  for (int i = 0; i < 7; ++i) pace.Note(kMiB, 1000);
  EXPECT_FALSE(pace.SlowerThan(4));
  pace.Note(kMiB, 1000);
  EXPECT_TRUE(pace.SlowerThan(4));
}

TEST(LunPaceTest, LunsThatTurnSlowShowSoonAndAreForgiven) {
  LunPace pace(64);
  for (int i = 0; i < 1000; ++i) pace.Note(kMiB, 2);
  EXPECT_FALSE(pace.SlowerThan(4));
  int slow = 0;
  for (; !pace.SlowerThan(4); ++slow) pace.Note(kMiB, 12);
  EXPECT_LE(slow, 24);
  for (int i = 0; i < 64; ++i) pace.Note(kMiB, 12);
  int quick = 0;
  for (; pace.SlowerThan(4); ++quick) pace.Note(kMiB, 2);
  EXPECT_LE(quick, 200);
}

}  // namespace
}  // namespace reel::client
