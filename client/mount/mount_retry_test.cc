#include "client/mount/mount_retry.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

constexpr char kMissing[] = "volume reel: LUN data1 (a-b) was not found; connect it (";

TEST(MountRetry, TriesAgainUntilItsTimeIsOver) {
  MountRetry retry(10'000, 5'000);
  EXPECT_EQ(retry.Pause(5'100), 250U);
  EXPECT_EQ(retry.Pause(6'000), 500U);
  EXPECT_EQ(retry.Pause(7'000), 1'000U);
  EXPECT_EQ(retry.Pause(8'000), 2'000U);
  EXPECT_EQ(retry.Pause(9'000), 4'000U);
  EXPECT_EQ(retry.Pause(9'500), 4'000U) << "no longer than that";
  EXPECT_EQ(retry.Pause(14'990), 10U) << "a last try at the end";
  EXPECT_EQ(retry.Pause(15'000), std::nullopt);
}

TEST(MountRetry, OneTryAloneWithoutTime) {
  MountRetry retry(0, 5'000);
  EXPECT_EQ(retry.Pause(5'000), std::nullopt);
}

TEST(MountRetry, NeverGivesUpWithoutALimit) {
  MountRetry retry(MountRetry::kNoLimit, 0);
  for (std::uint64_t hours = 0; hours < 10'000; ++hours) {
    ASSERT_TRUE(retry.Pause(hours * 3'600'000).has_value());
  }
  EXPECT_EQ(retry.Limit(), "");
  EXPECT_EQ(MountRetry(120'000, 0).Limit(), " for 2 min");
}

TEST(MountRetry, SaysOnceWhatItWaitsFor) {
  MountRetry retry(MountRetry::kNoLimit, 0);
  EXPECT_TRUE(retry.IsNews(Awaited::kController, "mdc1: connection refused"));
  EXPECT_FALSE(retry.IsNews(Awaited::kController, "mdc1: no route to host"));
  EXPECT_TRUE(retry.IsNews(Awaited::kLuns, std::string(kMissing) + "3 candidates"));
  EXPECT_FALSE(retry.IsNews(Awaited::kLuns, std::string(kMissing) + "4 candidates"));
  EXPECT_TRUE(retry.IsNews(Awaited::kLuns, "volume reel: LUN data2 (c-d) was not found; connect"));
  EXPECT_FALSE(retry.IsNews(Awaited::kController, "mdc1: connection refused"));
}

TEST(MountRetry, WaitsForLunsThatAreMissing) {
  EXPECT_EQ(AwaitedFor(absl::NotFoundError(kMissing)), Awaited::kLuns);
  EXPECT_EQ(AwaitedFor(absl::UnavailableError("the portal")), Awaited::kLuns);
  EXPECT_EQ(AwaitedFor(absl::FailedPreconditionError("in use")), Awaited::kNothing);
  EXPECT_EQ(AwaitedFor(absl::DataLossError("damaged")), Awaited::kNothing);
}

}  // namespace
}  // namespace reel::client
