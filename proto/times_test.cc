#include "proto/times.h"

#include <gtest/gtest.h>

namespace reel {
namespace {

v1::Time At(std::int64_t seconds, std::uint32_t nanoseconds = 0) {
  v1::Time time;
  time.set_seconds(seconds);
  time.set_nanoseconds(nanoseconds);
  return time;
}

TEST(TimesTest, Later) {
  EXPECT_TRUE(Later(At(1, 1), At(1)));
  EXPECT_FALSE(Later(At(1), At(1)));
  EXPECT_FALSE(Later(At(-2, 5), At(-1)));
}

TEST(TimesTest, Relatime) {
  const v1::Time old = At(1'000'000);
  EXPECT_FALSE(AtimeDue(old, At(999'999), At(999'999), At(1'000'010)));
  EXPECT_TRUE(AtimeDue(old, old, At(0), At(1'000'010))) << "written when it was last read";
  EXPECT_TRUE(AtimeDue(old, At(0), At(1'000'000, 1), At(1'000'010))) << "changed since";
  EXPECT_TRUE(AtimeDue(old, At(0), At(0), At(1'000'000 + 86'400))) << "a day ago";
  EXPECT_FALSE(AtimeDue(old, At(0), At(0), At(1'000'000 + 86'399)));
  EXPECT_FALSE(AtimeDue(old, old, old, old)) << "nothing to gain";
}

}  // namespace
}  // namespace reel
