#include "client/ahead/frame_name.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(FrameName, TheNumberIsTheFieldThatDiffers) {
  struct Row {
    const char *a, *b;
    std::uint64_t number;  // of the second, …
    const char* next;      // … and the name of the one behind it
  };
  const Row rows[] = {
      {"shot.000123.dpx", "shot.000124.dpx", 124, "shot.000125.dpx"},
      {"shot.000199.dpx", "shot.000200.dpx", 200, "shot.000201.dpx"},
      {"shot.9.exr", "shot.10.exr", 10, "shot.11.exr"},
      {"shot.99999.exr", "shot.100000.exr", 100'000, "shot.100001.exr"},
      {"shot.10.exr", "shot.9.exr", 9, "shot.10.exr"},
      {"v2_0007.jp2", "v2_0008.jp2", 8, "v2_0009.jp2"},
      {"v2_0007.jp2", "v3_0007.jp2", 3, "v4_0007.jp2"},
      {"7", "8", 8, "9"},
      {"a11", "a21", 21, "a22"},
  };
  for (const Row& row : rows) {
    auto pattern = PatternOf(row.a, row.b);
    ASSERT_TRUE(pattern) << row.a;
    EXPECT_EQ(pattern->NumberOf(row.b), row.number) << row.b;
    EXPECT_EQ(pattern->NameOf(row.number + 1), row.next);
  }
}

TEST(FrameName, OtherNamesAreNoSequence) {
  const std::pair<const char*, const char*> rows[] = {
      {"shot.01.dpx", "take.02.dpx"},
      {"v1_01.dpx", "v2_02.dpx"},
      {"shot.dpx", "shot.1.dpx"},
      {"a", "b"},
      {"shot.007.dpx", "shot.8.dpx"},
      {"1234567890123456789", "1234567890123456788"},
      {"", "1"},
      {"f007", "f0008"}};
  for (const auto& [a, b] : rows) EXPECT_FALSE(PatternOf(a, b)) << a << " " << b;
}

TEST(FrameName, APatternLearnsHowNumbersAreWritten) {
  auto pattern = *PatternOf("f101", "f100");
  EXPECT_EQ(pattern.NameOf(99), "f099");
  EXPECT_EQ(pattern.NumberOf("f99"), 99u);
  EXPECT_EQ(pattern.NameOf(98), "f98");
  EXPECT_EQ(pattern.NumberOf("f097"), std::nullopt) << "no zeros stand in front";
  auto padded = *PatternOf("f101", "f100");
  EXPECT_EQ(padded.NumberOf("f099"), 99u);
  EXPECT_EQ(padded.NumberOf("f98"), std::nullopt) << "zeros stand in front";
  EXPECT_EQ(padded.NumberOf("f1000"), 1000u);
  EXPECT_EQ(padded.NumberOf("g099"), std::nullopt);
  EXPECT_EQ(padded.NumberOf("f"), std::nullopt);
  EXPECT_EQ(padded.NumberOf("f12x"), std::nullopt);
}

}  // namespace
}  // namespace reel::client
