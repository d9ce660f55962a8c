#include "client/ahead/frame_sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "volume/base/types.h"

namespace reel::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Plan = FrameSequences::Plan;

constexpr std::uint64_t kFrame = 10 * kMiB;

class FrameSequencesTest : public testing::Test {
 protected:
  // Opens, reads and closes a frame, a moment after the one before.
  Plan Play(std::uint64_t number, std::uint64_t read_bytes = kFrame,
            const std::string& before = "shot.") {
    const std::string name = absl::StrFormat("%s%06d.dpx", before, number);
    now_ms_ += interval_ms_;
    Plan plan = sequences_.Open({.directory = directory_,
                                 .name = name,
                                 .size_bytes = kFrame,
                                 .now_ms = now_ms_,
                                 .memory_bytes = memory_bytes_});
    sequences_.Close(directory_, name, read_bytes, kFrame);
    return plan;
  }
  static std::vector<std::uint64_t> NumbersOf(const Plan& plan) {
    std::vector<std::uint64_t> numbers;
    for (const auto& frame : plan.fetch) numbers.push_back(frame.number);
    return numbers;
  }
  std::vector<std::uint64_t> Numbers(std::uint64_t number) { return NumbersOf(Play(number)); }

  FrameSequences sequences_;
  std::uint64_t directory_ = 7;
  std::uint64_t now_ms_ = 1'000'000;
  std::uint64_t interval_ms_ = 40;
  std::uint64_t memory_bytes_ = 256 * kMiB;
};

TEST_F(FrameSequencesTest, ThreeOpensByEqualStepsAreAStream) {
  EXPECT_THAT(Numbers(10), IsEmpty());
  EXPECT_THAT(Numbers(11), IsEmpty());
  const Plan plan = Play(12);
  EXPECT_THAT(NumbersOf(plan), ElementsAre(13, 14));
  EXPECT_EQ(plan.fetch[0].name, "shot.000013.dpx");
  EXPECT_EQ(plan.fetch[0].directory, 7u);
  EXPECT_EQ(plan.fetch[0].bytes, kFrame);
}

TEST_F(FrameSequencesTest, MoreIsFetchedAsLongAsItProvesRightAndNothingTwice) {
  for (const std::uint64_t number : {10, 11, 12}) Play(number);
  for (std::uint64_t number = 13; number < 19; ++number) {
    EXPECT_THAT(Numbers(number), ElementsAre(2 * number - 11, 2 * number - 10)) << number;
  }
  EXPECT_THAT(Numbers(19), ElementsAre(27)) << "kFramesAhead";
  EXPECT_THAT(Numbers(20), ElementsAre(28));
}

TEST_F(FrameSequencesTest, ReverseAndScrubbedStreams) {
  for (const std::uint64_t number : {100, 99}) EXPECT_THAT(Numbers(number), IsEmpty());
  EXPECT_THAT(Numbers(98), ElementsAre(97, 96));
  directory_ = 8;
  for (const std::uint64_t number : {100, 104}) EXPECT_THAT(Numbers(number), IsEmpty());
  EXPECT_THAT(Numbers(108), ElementsAre(112, 116));
}

TEST_F(FrameSequencesTest, AStreamThatTurnsIsAnotherOne) {
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  EXPECT_THAT(Numbers(12), IsEmpty());
  const Plan turned = Play(11);
  EXPECT_THAT(NumbersOf(turned), ElementsAre(10, 9));
  EXPECT_THAT(turned.ended, SizeIs(1)) << "what was fetched in the other direction goes";
}

TEST_F(FrameSequencesTest, AStreamThatScrubsFasterIsAnotherOne) {
  for (const std::uint64_t number : {10, 11, 12, 14}) Play(number);
  EXPECT_THAT(Numbers(16), ElementsAre(18, 20));
}

TEST_F(FrameSequencesTest, AStreamThatItsPlayerHasLeftEnds) {
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  for (const std::uint64_t number : {500, 501, 502, 503}) {
    EXPECT_THAT(Play(number).ended, IsEmpty()) << "it may be that of another program";
  }
  EXPECT_THAT(Play(504).ended, SizeIs(1));
}

TEST_F(FrameSequencesTest, AFrameThatIsLeftOutEndsNoStream) {
  for (const std::uint64_t number : {10, 11, 12, 13, 14}) Play(number);
  const Plan plan = Play(16);
  EXPECT_THAT(NumbersOf(plan), ElementsAre(19, 20, 21));
  EXPECT_THAT(plan.ended, IsEmpty());
}

TEST_F(FrameSequencesTest, ThreadsOfAPlayerOpenOutOfOrder) {
  for (const std::uint64_t number : {1, 3, 2}) Play(number);
  EXPECT_THAT(Numbers(4), ElementsAre(5, 6));
  EXPECT_THAT(Numbers(6), ElementsAre(7, 8, 9));
  EXPECT_THAT(Numbers(5), IsEmpty());
  EXPECT_THAT(Numbers(7), ElementsAre(10, 11));
}

TEST_F(FrameSequencesTest, SeveralStreamsOfOneSequenceAndOfSeveral) {
  for (const std::uint64_t step : {0, 1}) {
    for (const std::uint64_t at : {10, 50, 500}) EXPECT_THAT(Numbers(at + step), IsEmpty());
    EXPECT_THAT(NumbersOf(Play(30 + step, kFrame, "other.")), IsEmpty());
  }
  EXPECT_THAT(Numbers(12), ElementsAre(13, 14));
  EXPECT_THAT(Numbers(52), ElementsAre(53, 54));
  EXPECT_THAT(Numbers(502), ElementsAre(503, 504));
  EXPECT_THAT(NumbersOf(Play(32, kFrame, "other.")), ElementsAre(33, 34));
  EXPECT_THAT(Numbers(13), ElementsAre(15, 16));
}

TEST_F(FrameSequencesTest, WhatIsReadOnceMoreIsNoStep) {
  for (const std::uint64_t number : {10, 10, 11, 11}) EXPECT_THAT(Numbers(number), IsEmpty());
  EXPECT_THAT(Numbers(12), ElementsAre(13, 14));
  EXPECT_THAT(Numbers(12), IsEmpty());
}

TEST_F(FrameSequencesTest, OpensWithoutAStepFetchNothing) {
  for (const std::uint64_t number : {5, 900, 17, 40, 260, 3, 71}) {
    EXPECT_THAT(Numbers(number), IsEmpty()) << number;
  }
}

TEST_F(FrameSequencesTest, NothingIsAskedForBeyondAMissingFrameUntilTheReaderIsNear) {
  for (std::uint64_t number = 10; number < 17; ++number) Play(number);
  const Plan plan = Play(17);
  ASSERT_THAT(NumbersOf(plan), ElementsAre(23, 24));
  sequences_.NoteMissing(plan.fetch[1]);
  sequences_.NoteMissing(plan.fetch[0]);  // nobody has made it yet
  for (const std::uint64_t number : {18, 19, 20}) EXPECT_THAT(Numbers(number), IsEmpty());
  const Plan near = Play(21);
  EXPECT_THAT(NumbersOf(near), ElementsAre(23)) << "it alone, once more";
  sequences_.NoteMissing(near.fetch[0]);
  EXPECT_THAT(Numbers(22), ElementsAre(23));
  EXPECT_THAT(Numbers(23), ElementsAre(24, 25, 26, 27, 28, 29, 30, 31)) << "it was there";
}

TEST_F(FrameSequencesTest, AStreamThatPausesIsForgotten) {
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  now_ms_ += FrameSequences::kPauseMs;
  const Plan plan = Play(14);
  EXPECT_THAT(plan.fetch, IsEmpty());
  EXPECT_THAT(plan.ended, SizeIs(1));
  EXPECT_THAT(Numbers(15), IsEmpty());
  EXPECT_THAT(Numbers(16), ElementsAre(17, 18));
}

TEST_F(FrameSequencesTest, BytesAreFetchedAsFarAsReadersCome) {
  for (const std::uint64_t number : {10, 11}) Play(number, 4096);
  for (const auto& frame : Play(12, 4096).fetch) EXPECT_EQ(frame.bytes, 4096u);
  Play(13);  // one reads all of it
  for (const auto& frame : Play(14, 4096).fetch) EXPECT_EQ(frame.bytes, kFrame);
  directory_ = 8;
  for (const std::uint64_t number : {10, 11}) Play(number, 0);
  for (const auto& frame : Play(12, 0).fetch) EXPECT_EQ(frame.bytes, 0u) << "only looked at";
}

TEST_F(FrameSequencesTest, BytesAreFetchedAsFarAsThereIsMemory) {
  memory_bytes_ = 4 * kFrame;
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  const Plan plan = Play(14);
  std::uint64_t bytes = 0;
  for (const auto& frame : plan.fetch) bytes += frame.bytes;
  EXPECT_THAT(plan.fetch, SizeIs(2));
  EXPECT_EQ(bytes, kFrame) << "of three frames, two were asked for before";
  EXPECT_EQ(Play(15).fetch[0].bytes, kFrame) << "the next one, when its turn comes";
}

TEST_F(FrameSequencesTest, OfAFrameLargerThanTheMemoryItsBeginning) {
  memory_bytes_ = kFrame / 2;
  for (const std::uint64_t number : {10, 11}) Play(number);
  const Plan plan = Play(12);
  EXPECT_EQ(plan.fetch[0].bytes, kFrame / 2);
  EXPECT_EQ(plan.fetch[1].bytes, 0u);
}

TEST_F(FrameSequencesTest, OfSlowReadersOnlyFramesThatAreDueSoon) {
  interval_ms_ = 500;
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  std::size_t with_bytes = 0;
  for (const auto& frame : Play(14).fetch) with_bytes += frame.bytes > 0 ? 1 : 0;
  EXPECT_EQ(with_bytes, 1u);
  directory_ = 8;
  interval_ms_ = 2'000;
  for (const std::uint64_t number : {10, 11, 12, 13}) Play(number);
  for (const auto& frame : Play(14).fetch) EXPECT_EQ(frame.bytes, 0u);
}

TEST_F(FrameSequencesTest, FramesEndAtZero) {
  for (const std::uint64_t number : {3, 2}) Play(number);
  EXPECT_THAT(Numbers(1), ElementsAre(0));
}

TEST_F(FrameSequencesTest, VeryManySequencesForgetTheOldest) {
  interval_ms_ = 0;
  for (std::uint64_t i = 0; i < 2 * FrameSequences::kMaxPatterns; ++i) {
    directory_ = 100 + i;
    for (const std::uint64_t number : {1, 2, 3}) Play(number);
  }
  directory_ = 100;
  EXPECT_THAT(Numbers(4), IsEmpty());
  directory_ = 100 + 2 * FrameSequences::kMaxPatterns - 1;
  EXPECT_FALSE(Numbers(4).empty()) << "the last one goes on";
}

}  // namespace
}  // namespace reel::client
