#include "mdc/inspect/measurement.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr StreamId kFirst{1}, kSecond{2};

std::vector<Core::Connected> Two() {
  return {{.session = SessionId(17), .stream = kFirst, .host = "ws1", .knows_ping = true},
          {.session = SessionId(18), .stream = kSecond, .host = "ws2", .knows_ping = false}};
}

v1::Request Pong(std::uint64_t number) {
  v1::Request request;
  request.mutable_pong()->set_number(number);
  return request;
}

TEST(MeasurementTest, OnePingAtATimeGoesToWhoAnswers) {
  Measurement measured;
  EXPECT_FALSE(measured.on());
  measured.Begin(v1::MeasureRequest::ROUND_TRIPS, Two(), 0);
  auto pings = measured.Pings(1000);
  ASSERT_EQ(pings.size(), 1u);
  EXPECT_EQ(pings[0].first, kFirst);
  EXPECT_TRUE(measured.Pings(2000).empty()) << "the last one is not answered";
  measured.Arrived(kFirst, Pong(99), 2100);  // of no ping
  measured.Arrived(kFirst, Pong(pings[0].second.ping().number()), 3000);
  EXPECT_EQ(measured.Pings(4000).size(), 1u);
  v1::MeasureReply reply;
  measured.Describe(5'000, reply);
  ASSERT_EQ(reply.series_size(), 2);
  EXPECT_EQ(reply.elapsed_ms(), 5u);
  EXPECT_EQ(reply.series(0).count(), 1u);
  EXPECT_EQ(reply.series(0).mean_us(), 2000u);
  EXPECT_EQ(reply.series(0).median_us(), 2000u);
  EXPECT_NE(reply.series(1).problem().find("does not answer such"), std::string::npos);
}

TEST(MeasurementTest, OperationsAreTimedByKind) {
  Measurement measured;
  measured.Begin(v1::MeasureRequest::OPERATIONS, Two(), 0);
  EXPECT_TRUE(measured.Pings(0).empty());
  for (int i = 1; i <= 100; ++i) {
    measured.Answered(kFirst, {v1::Request::kCreate, i == 100 ? 50'000u : 100u});
  }
  measured.Answered(StreamId(7), {v1::Request::kCreate, 1});  // began after the measurement
  v1::MeasureReply told;
  measured.Describe(1000, told);
  const v1::MeasureReply::Series& series = told.series(0);
  EXPECT_EQ(series.name(), "create");
  EXPECT_EQ(series.count(), 100u);
  EXPECT_EQ(series.least_us(), 100u);
  EXPECT_EQ(series.most_us(), 50'000u);
  EXPECT_EQ(series.mean_us(), (99 * 100 + 50'000) / 100u);
  EXPECT_NEAR(static_cast<double>(series.median_us()), 100, 13);
  EXPECT_NEAR(static_cast<double>(series.p99_us()), 100, 13);
  EXPECT_EQ(told.series(1).problem(), "has asked nothing");
}

TEST(MeasurementTest, EndsByItselfWhenNobodyAsks) {
  Measurement measured;
  measured.Begin(v1::MeasureRequest::ROUND_TRIPS, Two(), 0);
  EXPECT_TRUE(measured.Pings((Measurement::kMostMs + 1) * 1000).empty());
  EXPECT_FALSE(measured.on());
}

}  // namespace
}  // namespace reel::mdc
