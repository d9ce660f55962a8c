#include "mdc/inspect/operation_times.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

class OperationTimesTest : public ::testing::Test {
 protected:
  void Arrive(StreamId stream, std::uint64_t id, std::uint64_t at_us) {
    v1::Request request;
    request.set_id(id);
    request.mutable_create();
    times_.Arrived(stream, request, at_us);
  }
  std::optional<OperationTimes::Took> Answer(StreamId stream, std::uint64_t id,
                                             std::uint64_t at_us) {
    v1::Reply reply;
    reply.set_id(id);
    return times_.Answered(stream, reply, at_us);
  }
  v1::StatReply Told() const {
    v1::StatReply reply;
    times_.Describe(reply);
    return reply;
  }

  static constexpr StreamId kFirst{1}, kSecond{2};
  OperationTimes times_;
};

TEST_F(OperationTimesTest, EachRequestIsCountedOnceInItsBucket) {
  EXPECT_EQ(Told().times_size(), 0);
  Arrive(kFirst, 1, 1000);
  Arrive(kSecond, 1, 1000);
  const auto took = Answer(kFirst, 1, 1100);
  ASSERT_TRUE(took);
  EXPECT_EQ(took->op, v1::Request::kCreate);
  EXPECT_EQ(took->us, 100u);
  EXPECT_FALSE(Answer(kFirst, 1, 9000)) << "durable, after an early reply";
  EXPECT_TRUE(Answer(kSecond, 1, 1101));
  const v1::StatReply told = Told();
  ASSERT_EQ(told.times_size(), 1);
  EXPECT_EQ(told.times(0).operation(), "create");
  EXPECT_EQ(told.times(0).sum_us(), 201u);
  EXPECT_EQ(told.times(0).counts_size(), told.bounds_us_size() + 1);
  EXPECT_EQ(told.bounds_us(1), 100u);
  EXPECT_EQ(told.times(0).counts(1), 1u) << "a bound belongs to the bucket that it ends";
  EXPECT_EQ(told.times(0).counts(2), 1u);
}

TEST_F(OperationTimesTest, WhatTakesLongerThanAllBoundsIsCountedLast) {
  Arrive(kFirst, 7, 0);
  EXPECT_TRUE(Answer(kFirst, 7, TimeHistogram::kBoundsUs.back() + 1));
  EXPECT_EQ(Told().times(0).counts(TimeHistogram::kBoundsUs.size()), 1u);
}

TEST_F(OperationTimesTest, AStreamThatEndedIsAnsweredNoMore) {
  Arrive(kFirst, 1, 0);
  times_.StreamEnded(kFirst);
  EXPECT_FALSE(Answer(kFirst, 1, 10));
}

TEST_F(OperationTimesTest, NothingIsKeptOfAnswersToThisController) {
  v1::Request pong;
  pong.set_id(3);
  pong.mutable_pong();
  times_.Arrived(kFirst, pong, 0);
  EXPECT_FALSE(Answer(kFirst, 3, 10));
}

}  // namespace
}  // namespace reel::mdc
