// What counts as slower, and results that are none.
#include "tools/bench/compare.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/bench/start_times.h"

namespace reel::bench {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Difference::Kind;

Figure Rate(double median, double least, double most) {
  return {"reads", "bytes/s", true, {median, least, most}};
}

Kind KindOf(const Figure& before, const Figure& after) {
  return Comparison({before}, {after}, 0.1).differences().front().kind;
}

TEST(CompareTest, BeyondTheToleranceAndApart) {
  EXPECT_EQ(KindOf(Rate(100, 98, 102), Rate(91, 90, 92)), Kind::kEqual);
  EXPECT_EQ(KindOf(Rate(100, 98, 102), Rate(80, 78, 82)), Kind::kSlower);
  EXPECT_EQ(KindOf(Rate(100, 98, 102), Rate(120, 118, 122)), Kind::kFaster);
  EXPECT_EQ(KindOf(Rate(100, 60, 140), Rate(80, 70, 90)), Kind::kUnclear);
  EXPECT_EQ(KindOf(Rate(100, 98, 102), Rate(0, 0, 0)), Kind::kSlower);
}

TEST(CompareTest, OfTimesLessIsBetter) {
  const Figure before{"open", "ms", false, {2, 2, 2}}, after{"open", "ms", false, {4, 4, 4}};
  EXPECT_EQ(KindOf(before, after), Kind::kSlower);
  EXPECT_EQ(KindOf(after, before), Kind::kFaster);
  const Figure none{"open", "ms", false, {0, 0, 0}};
  EXPECT_EQ(KindOf(none, none), Kind::kEqual);
}

TEST(CompareTest, WhatOnlyOneHasIsSaid) {
  const Comparison comparison({Rate(1, 1, 1)}, {{"writes", "bytes/s", true, {1, 1, 1}}}, 0.1);
  EXPECT_TRUE(comparison.empty());
  EXPECT_NE(comparison.ToText().find("Only in the first: reads"), std::string::npos);
  EXPECT_NE(comparison.ToText().find("Only in the second: writes"), std::string::npos);
}

TEST(CompareTest, OfEveryCommand) {
  const Report report{{"mount"}, {Row{"work", {{{1, 10, 0, 0}}}}}};
  EXPECT_EQ(FiguresIn(report.ToJson())->front().name, "work: mount");
  const auto frames = FiguresIn(
      Json::parse(R"({"streams": [{"stream": "a", "fps": 24, "io_ms": {"p50": 3, "p99": 9}}]})"));
  ASSERT_TRUE(frames.ok());
  EXPECT_EQ((*frames)[0].value.median, 24);
  EXPECT_EQ(frames->size(), 5u);
  const auto sweep = FiguresIn(Json::parse(
      R"({"points": [{"layout": "fresh", "breadth_bytes": 65536, "io_bytes": 4096, "depth": 2,
          "write": true, "rate": {"median": 5, "least": 4, "most": 6}}]})"));
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(sweep->front().name, "fresh, stripe breadth 64 KiB: writes of 4 KiB, 2 at a time");
  EXPECT_EQ(FiguresIn(Json::parse(R"({"read_bytes": 1, "reads": 2})"))->size(), 4u);
}

TEST(CompareTest, AnyJsonIsSafe) {
  for (const char* text :
       {"null", "1", "[]", "{}", R"({"rows": 1})", R"({"rows": []})", R"({"rows": [1, null, []]})",
        R"({"rows": [{"work": 1, "sides": {}}]})", R"({"command": "compare", "rows": [{}]})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FiguresIn(Json::parse(text)).status())) << text;
  }
  EXPECT_TRUE(FiguresIn(Json::parse(R"({"streams": [1], "points": 3})")).ok());
  EXPECT_TRUE(FiguresIn(Json::parse(R"({"points": [{"io_bytes": -1e300, "depth": 1e300}]})")).ok());
  EXPECT_TRUE(FiguresIn(Json::parse(R"({"rows": [{"sides": {"a": {"rate": []}}}]})")).ok());
}

TEST(StartTimesTest, TheNextSuchTime) {
  const double now = SecondsNow();
  EXPECT_EQ(*ParseStartAt("@1700000000.5", now), 1700000000.5);
  for (const char* text : {"00:00", "12:34:56", "23:59"}) {
    const auto at = ParseStartAt(text, now);
    ASSERT_TRUE(at.ok()) << text;
    EXPECT_GE(*at, now);
    EXPECT_LE(*at, now + 25 * 3600);  // a day may have 25 hours
  }
  for (const char* wrong : {"", "@", "@-1", "@nan", "24:00", "12:60", "12", "12:00 ", "12:00:61"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseStartAt(wrong, now).status())) << wrong;
  }
}

TEST(StartTimesTest, WhatHasPassedIsSaid) {
  const StartTimes past(SecondsNow() - 100, 10);
  EXPECT_TRUE(absl::IsDeadlineExceeded(past.Await(0)));
  EXPECT_EQ(StartTimes(100, 10).At(3), 130);
}

}  // namespace
}  // namespace reel::bench
