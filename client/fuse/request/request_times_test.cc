#include "client/fuse/request/request_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <cerrno>
#include <numeric>
#include <thread>
#include <vector>

namespace reel::client {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

std::uint64_t CountOf(const RequestTimes::Kind& kind) {
  return std::accumulate(kind.times.counts.begin(), kind.times.counts.end(), std::uint64_t{0});
}

TEST(RequestTimesTest, KindsAreCountedWithTheirTimesAndErrors) {
  RequestTimes times;
  EXPECT_THAT(times.Kinds(), IsEmpty());
  times.Add(FUSE_LOOKUP, ENOENT, 40);
  times.Add(FUSE_LOOKUP, 0, 20'000'000);
  times.Add(FUSE_WRITE, EIO, 90);
  times.Add(/*opcode=*/4000, 0, 1);  // of a kernel to come
  times.Add(/*opcode=*/57, /*error=*/100'000, 1);
  const auto kinds = times.Kinds();
  ASSERT_THAT(kinds, ElementsAre(Field(&RequestTimes::Kind::name, "other"),
                                 Field(&RequestTimes::Kind::name, "lookup"),
                                 Field(&RequestTimes::Kind::name, "write")));
  EXPECT_EQ(CountOf(kinds[0]), 2U);
  const RequestTimes::Kind& lookups = kinds[1];
  EXPECT_EQ(lookups.times.sum_us, 20'000'040U);
  EXPECT_EQ(lookups.times.counts.front(), 1U);
  EXPECT_EQ(lookups.times.counts.back(), 1U) << "longer than all bounds";
  ASSERT_EQ(lookups.errors.size(), 1U);
  EXPECT_EQ(lookups.errors[0].error, ENOENT);
  EXPECT_EQ(lookups.errors[0].count, 1U);
}

TEST(RequestTimesTest, AllThreadsAreCounted) {
  RequestTimes times;
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) times.Add(FUSE_READ, 0, 7);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto kinds = times.Kinds();
  ASSERT_EQ(kinds.size(), 1U);
  EXPECT_EQ(CountOf(kinds[0]), 12'000U);
  EXPECT_EQ(kinds[0].times.sum_us, 84'000U);
}

}  // namespace
}  // namespace reel::client
