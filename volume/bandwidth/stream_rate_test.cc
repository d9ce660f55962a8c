#include "volume/bandwidth/stream_rate.h"

#include "gtest/gtest.h"

namespace reel {
namespace {

TEST(StreamRate, IsReadInBytesAndInFrames) {
  EXPECT_EQ(ParseStreamRate("400M")->rate_bytes, 400u << 20);
  const StreamRate frames = *ParseStreamRate("24x12M");
  EXPECT_EQ(frames.rate_bytes, 288u << 20);
  EXPECT_EQ(frames.frames, 24u);
  EXPECT_EQ(StreamRateText(frames), "24x12582912");
  for (const char* bad : {"", "x", "0x12M", "24x", "fast", "1", "2000x1M", "24x99999T", "16E"})
    EXPECT_FALSE(ParseStreamRate(bad).ok()) << bad;
}

}  // namespace
}  // namespace reel
