#include "volume/base/uuid.h"

#include <gtest/gtest.h>

#include "volume/base/env.h"

namespace reel {
namespace {

TEST(Uuid, TextAndBytesRoundTrip) {
  const std::string text = "00112233-4455-6677-8899-aabbccddeeff";
  const auto uuid = Uuid::Parse(text);
  ASSERT_TRUE(uuid.ok()) << uuid.status();
  EXPECT_EQ(uuid->bytes[1], 0x11);
  EXPECT_EQ(uuid->ToString(), text);
  EXPECT_EQ(*Uuid::FromBytes(uuid->ToBytes()), *uuid);
  EXPECT_EQ(Uuid::Parse("00112233-4455-6677-8899-AABBCCDDEEFF")->ToString(), text);
}

TEST(Uuid, RefusesOtherText) {
  for (const char* text :
       {"", "0", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0",
        "00112233445566778899aabbccddeeff", "0011223g-4455-6677-8899-aabbccddeeff",
        "00112233+4455-6677-8899-aabbccddeeff"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Uuid::Parse(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Uuid::FromBytes("short").status()));
}

TEST(Uuid, RandomOnesDifferAndCarryTheirVersion) {
  const Uuid a = Uuid::Random();
  EXPECT_NE(a, Uuid::Random());
  EXPECT_FALSE(a.is_nil());
  EXPECT_TRUE(Uuid{}.is_nil());
  EXPECT_EQ(a.bytes[6] >> 4, 4);
  EXPECT_EQ(a.bytes[8] >> 6, 2);
}

TEST(Env, ClocksMoveForwardAndWithinBounds) {
  const std::uint64_t before_ms = SystemClock().NowMs();
  EXPECT_LE(before_ms, SystemClock().NowMs());
  const WallTime wall = SystemClock().WallNow();
  EXPECT_GT(wall.seconds, 1'600'000'000);
  EXPECT_LT(wall.nanoseconds, 1'000'000'000U);
  EXPECT_NE(RandomU64(), RandomU64());
}

}  // namespace
}  // namespace reel
