// Sizes, orders and times of frames; what figures are made of them; and every pattern once on a
// local directory.
#include <filesystem>
#include <set>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/bench/frames/frame_figures.h"
#include "tools/bench/frames/frame_format.h"
#include "tools/bench/frames/frame_order.h"
#include "tools/bench/frames/frame_schedule.h"
#include "tools/bench/frames/frames_report.h"
#include "tools/bench/frames/frames_run.h"

namespace reel::bench {
namespace {

using Verdict = FrameSchedule::Verdict;
constexpr std::int64_t kMs = 1'000'000;

std::uint64_t BytesOf(const char* format) {
  return ParseFrameFormat(format)->bytes;
}

TEST(FrameFormatTest, SizesToTheByte) {
  EXPECT_EQ(BytesOf("2k-full-dpx"), 2048u + 2048u * 1556 * 4);
  EXPECT_EQ(BytesOf("hd-dpx"), 8'296'448u);
  EXPECT_EQ(BytesOf("8k-dpx"), 141'559'808u);
  // 313 bytes of header, 16 a line, and 2 a sample.
  EXPECT_EQ(BytesOf("hd-exr"), 313u + 1080u * (16 + 6 * 1920));
  EXPECT_EQ(BytesOf("4K-EXRA"), 331u + 2160u * (16 + 8 * 4096));
  EXPECT_EQ(BytesOf("50MiB"), 50u << 20);
  for (const char* wrong : {"", "4k", "9k-dpx", "4k-tiff", "0", "5GiB", "-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseFrameFormat(wrong).status())) << wrong;
  }
}

std::vector<std::uint64_t> Played(FramePattern pattern, std::uint64_t frames, int count) {
  FrameOrder order(pattern, frames, 7);
  std::vector<std::uint64_t> played;
  for (int i = 0; i < count; ++i) played.push_back(order.Next());
  return played;
}

TEST(FrameOrderTest, Patterns) {
  using Frames = std::vector<std::uint64_t>;
  EXPECT_EQ(Played(FramePattern::kForward, 3, 5), (Frames{0, 1, 2, 0, 1}));
  EXPECT_EQ(Played(FramePattern::kReverse, 3, 5), (Frames{2, 1, 0, 2, 1}));
  EXPECT_EQ(Played(FramePattern::kPingPong, 3, 7), (Frames{0, 1, 2, 1, 0, 1, 2}));
  EXPECT_EQ(Played(FramePattern::kPingPong, 1, 2), (Frames{0, 0}));
  for (const char* name : {"forward", "reverse", "pingpong", "scrub", "growing"}) {
    EXPECT_STREQ(NameOf(*ParseFramePattern(name)), name);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFramePattern("sideways").status()));
}

TEST(FrameOrderTest, ScrubbingGoesEverywhereBothWaysAndIsTheSameAgain) {
  const auto played = Played(FramePattern::kScrub, 100, 5000);
  EXPECT_EQ(played, Played(FramePattern::kScrub, 100, 5000));
  EXPECT_EQ(std::set(played.begin(), played.end()).size(), 100u);
  int forward = 0, backward = 0;
  for (std::size_t i = 1; i < played.size(); ++i) {
    const auto step = static_cast<int>(played[i]) - static_cast<int>(played[i - 1]);
    forward += step > 0 && step <= 4 ? 1 : 0;
    backward += step < 0 && step >= -4 ? 1 : 0;
  }
  EXPECT_GT(forward, 1500);
  EXPECT_GT(backward, 1500);
  for (const std::uint64_t frame : Played(FramePattern::kScrub, 1, 100)) EXPECT_EQ(frame, 0u);
}

TEST(FrameScheduleTest, APlayerReadsAheadByItsBuffers) {
  const FrameSchedule schedule({.fps = 25, .buffers = 4});
  EXPECT_EQ(schedule.preroll(), 5u);  // the one on the screen, and four
  EXPECT_EQ(schedule.DueNs(10), 400 * kMs);
  EXPECT_EQ(schedule.MayStartNs(10), 240 * kMs);
  EXPECT_EQ(schedule.Judge(10, 400 * kMs), Verdict::kOnTime);
  EXPECT_EQ(schedule.Judge(10, 400 * kMs + 1), Verdict::kLate);
  EXPECT_EQ(schedule.Judge(10, 440 * kMs - 1), Verdict::kLate);
  EXPECT_EQ(schedule.Judge(10, 440 * kMs), Verdict::kDropped);
  EXPECT_FALSE(schedule.IsOver(10, 440 * kMs - 1));
  EXPECT_TRUE(schedule.IsOver(10, 440 * kMs));
  EXPECT_EQ(schedule.Judge(4, 10'000 * kMs), Verdict::kOnTime);  // before the clock
}

TEST(FrameScheduleTest, ARecorderHasUntilItsBufferIsNeededAgain) {
  const FrameSchedule schedule({.fps = 50, .buffers = 3, .write = true});
  EXPECT_EQ(schedule.preroll(), 0u);
  EXPECT_EQ(schedule.MayStartNs(10), 200 * kMs);  // the camera has it then
  EXPECT_EQ(schedule.DueNs(10), 260 * kMs);
  EXPECT_EQ(schedule.Judge(0, 60 * kMs), Verdict::kOnTime);
  EXPECT_EQ(schedule.Judge(0, 80 * kMs), Verdict::kDropped);
}

TEST(FrameScheduleTest, ALongStreamDoesNotDrift) {
  const FrameSchedule schedule({.fps = 24000.0 / 1001, .buffers = 8});
  EXPECT_EQ(schedule.DueNs(24'000), 1'001'000 * kMs);
}

TEST(FrameScheduleTest, WithoutARateNothingIsDue) {
  const FrameSchedule schedule({.fps = 0});
  EXPECT_FALSE(schedule.has_clock());
  EXPECT_EQ(schedule.Judge(100, 1'000'000 * kMs), Verdict::kOnTime);
  EXPECT_FALSE(schedule.IsOver(0, 1'000'000 * kMs));
}

TEST(FrameFiguresTest, PercentilesByRank) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) values.push_back(i);
  const Percentiles of = PercentilesOf(values);
  EXPECT_EQ(of.p50, 50);
  EXPECT_EQ(of.p99, 99);
  EXPECT_EQ(of.most, 100);
  EXPECT_EQ(PercentilesOf({7}).p50, 7);
  EXPECT_EQ(PercentilesOf({}).most, 0);
}

StreamRun RunOf(int on_time, int late, int dropped) {
  StreamRun run{.name = "stream", .seconds = 4};
  const auto add = [&](Verdict verdict, bool done, double spare_ms) {
    FrameRecord record{.frame = run.frames.size(), .number = run.frames.size() % 10};
    record.verdict = verdict;
    record.done = done;
    record.spare_ms = spare_ms;
    record.times = {.open_ns = 1 * kMs,
                    .io_ns = static_cast<std::int64_t>(run.frames.size()) * kMs};
    run.frames.push_back(record);
  };
  for (int i = 0; i < on_time; ++i) add(Verdict::kOnTime, true, 5);
  for (int i = 0; i < late; ++i) add(Verdict::kLate, true, -3);
  for (int i = 0; i < dropped; ++i) add(Verdict::kDropped, false, 0);
  return run;
}

TEST(FrameFiguresTest, WhatAViewerSawIsTheRate) {
  const FrameFigures figures = FiguresOf(RunOf(90, 4, 6), 25, 1'000'000);
  EXPECT_EQ(figures.frames, 100u);
  EXPECT_DOUBLE_EQ(figures.fps, 25 * 0.94);
  EXPECT_DOUBLE_EQ(figures.bytes_per_second, 94 * 1e6 / 4);
  EXPECT_EQ(figures.late, 4u);
  EXPECT_EQ(figures.dropped, 6u);
  EXPECT_EQ(figures.least_spare_ms, -3);
  ASSERT_EQ(figures.slowest.size(), 10u);
  EXPECT_EQ(figures.slowest.front().frame, 93u);                 // dropped ones took no time
  EXPECT_DOUBLE_EQ(FiguresOf(RunOf(90, 0, 0), 0, 1).fps, 22.5);  // no clock: by the time it took
}

TEST(FrameFiguresTest, WhatIsRequired) {
  const std::vector<FrameFigures> figures = {FiguresOf(RunOf(90, 4, 6), 25, 1)};
  const auto short_of = [&](const Required& required) {
    return ShortfallsOf({"stream"}, figures, required).size();
  };
  EXPECT_EQ(short_of({}), 0u);
  EXPECT_EQ(short_of({.fps = 23.5}), 0u);
  EXPECT_EQ(short_of({.fps = 24}), 1u);
  EXPECT_EQ(short_of({.late = 10}), 0u);
  EXPECT_EQ(short_of({.late = 9}), 1u);
  EXPECT_EQ(short_of({.fps = 24, .late = 9}), 2u);
}

class FramesRunTest : public ::testing::Test {
 protected:
  FramesRunTest() {
    auto root = ScratchDirectory::Make({"here", testing::TempDir()});
    EXPECT_TRUE(root.ok()) << root.status();
    root_ = std::make_unique<ScratchDirectory>(*std::move(root));
    options_.format = {"small", "frame", 5000};  // no multiple of a block
    options_.fps = 200;
    options_.seconds = 0.2;
    options_.direct = false;
  }

  FramesRun Run() {
    const std::vector<Side> sides = {{"here", root_->path()}};
    auto run = RunFrames(sides, options_, [] { return absl::OkStatus(); });
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(std::filesystem::is_empty(root_->path()));  // everything is removed again
    return run.ok() ? *std::move(run) : FramesRun{};
  }

  std::unique_ptr<ScratchDirectory> root_;
  FramesOptions options_;
};

TEST_F(FramesRunTest, EveryPatternPlaysEveryFrame) {
  for (const FramePattern pattern : {FramePattern::kForward, FramePattern::kReverse,
                                     FramePattern::kPingPong, FramePattern::kScrub}) {
    options_.pattern = pattern;
    options_.streams = 2;
    options_.also_write = 1;
    const FramesRun run = Run();
    ASSERT_EQ(run.streams.size(), 3u);
    for (const StreamRun& stream : run.streams) EXPECT_EQ(stream.frames.size(), 40u);
    EXPECT_FALSE(run.streams[0].write);
    EXPECT_TRUE(run.streams[2].write);
  }
}

TEST_F(FramesRunTest, AGrowingFileIsReadBehindItsWriter) {
  options_.pattern = FramePattern::kGrowing;
  const FramesRun run = Run();
  ASSERT_EQ(run.streams.size(), 2u);
  EXPECT_TRUE(run.streams[0].write);
  EXPECT_EQ(run.streams[0].frames.size(), 40u);
  EXPECT_EQ(run.streams[1].frames.size(), 40u);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(run.streams[1].frames[i].number, i);
}

TEST_F(FramesRunTest, WithoutARateItEndsByTime) {
  options_.fps = 0;
  options_.write = true;
  options_.space_bytes = 1 << 20;
  const FramesRun run = Run();
  ASSERT_EQ(run.streams.size(), 1u);
  EXPECT_GE(run.streams[0].seconds, 0.2);
  EXPECT_GT(run.streams[0].frames.size(), 0u);
  EXPECT_EQ(run.sequence_frames, 128u);  // what a MiB holds of two blocks each
}

TEST_F(FramesRunTest, SequencesThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  options_.format.bytes = 4ull << 30;
  options_.seconds = 3600;
  options_.space_bytes = 1ull << 60;
  const std::vector<Side> sides = {{"here", root_->path()}};
  const auto run = RunFrames(sides, options_, [] { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsResourceExhausted(run.status())) << run.status();
  EXPECT_TRUE(std::filesystem::is_empty(root_->path()));
}

TEST(FramesReportTest, SaysWhatWasNotReached) {
  FramesRun run{.sequence_frames = 10, .streams = {RunOf(90, 4, 6)}};
  run.options.format = *ParseFrameFormat("4k-dpx");
  run.options.fps = 25;
  const FramesReport report(run, {.fps = 25});
  EXPECT_FALSE(report.enough());
  EXPECT_NE(report.ToText().find("Not reached: stream: 23.50 frames"), std::string::npos)
      << report.ToText();
  const auto json = report.ToJson();
  EXPECT_EQ(json["streams"][0]["dropped"], 6);
  EXPECT_EQ(json["enough"], false);
  EXPECT_TRUE(FramesReport(run, {.fps = 20}).enough());
}

}  // namespace
}  // namespace reel::bench
