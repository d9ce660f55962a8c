#include "client/file/stream_pace.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

constexpr std::uint64_t kFrame = 1 << 20;

// Frames of a MiB, 25 a second, from frame `from` on; the time after them.
std::uint64_t Stream(StreamPace& pace, std::uint64_t from, std::uint64_t frames,
                     std::uint64_t now_ms, std::uint64_t frame_ms = 40) {
  for (std::uint64_t i = from; i < from + frames; ++i, now_ms += frame_ms) {
    pace.Note(i * kFrame, (i + 1) * kFrame, now_ms);
  }
  return now_ms;
}

TEST(StreamPace, AStreamKnowsItsPaceAfterASecond) {
  StreamPace pace;
  std::uint64_t now_ms = Stream(pace, 0, 20, 5'000);
  EXPECT_EQ(pace.BytesIn(1'000), 0u);
  EXPECT_EQ(pace.streamed_bytes(), 20 * kFrame);
  Stream(pace, 20, 30, now_ms);
  EXPECT_NEAR(static_cast<double>(pace.BytesIn(2'000)), 50.0 * kFrame, 2.0 * kFrame);
}

TEST(StreamPace, AJumpStartsTheStreamAnew) {
  StreamPace pace;
  EXPECT_FALSE(pace.Note(0, kFrame, 0)) << "the first use continues nothing";
  EXPECT_TRUE(pace.Note(kFrame, 2 * kFrame, 1));
  Stream(pace, 2, 100, 2);
  EXPECT_FALSE(pace.Note(0, kFrame, 10'000));
  EXPECT_EQ(pace.BytesIn(1'000), 0u);
  EXPECT_EQ(pace.streamed_bytes(), kFrame);
}

TEST(StreamPace, ASmallFileIsNoStream) {
  StreamPace pace;
  EXPECT_FALSE(pace.Note(0, 4'096, 0));
  EXPECT_FALSE(pace.Note(4'096, 100'000, 0));
  EXPECT_TRUE(pace.Note(100'000, 600'000, 0));
}

TEST(StreamPace, AStreamThatWasHeldUpKeepsItsNeeds) {
  StreamPace pace;
  std::uint64_t now_ms = Stream(pace, 0, 100, 0);
  Stream(pace, 100, 30, now_ms + 3'000);
  EXPECT_GT(pace.BytesIn(1'000), 17 * kFrame);
}

TEST(StreamPace, AReaderRunsLowWhenAQuarterIsUsedUp) {
  StreamPace pace;
  Stream(pace, 0, 100, 0);  // 25 frames a second: 225 in kPrefetchMs
  EXPECT_FALSE(pace.RunsLow(400 * kFrame)) << "enough at its pace, whatever it has held";
  EXPECT_FALSE(pace.RunsLow(310 * kFrame));
  EXPECT_TRUE(pace.RunsLow(200 * kFrame));
  EXPECT_FALSE(pace.RunsLow(200 * kFrame)) << "that is the most since it has asked";
  EXPECT_FALSE(pace.RunsLow(160 * kFrame));
  EXPECT_TRUE(pace.RunsLow(140 * kFrame));
  EXPECT_FALSE(pace.RunsLow(12 * kFrame)) << "close behind the writer";
}

}  // namespace
}  // namespace reel::client
