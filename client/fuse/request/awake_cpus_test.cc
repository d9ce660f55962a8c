// What the kernel is asked for, with a pipe in its place.
#include "client/fuse/request/awake_cpus.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

namespace reel::client {
namespace {

class AwakeCpusTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    asked_ = UniqueFd(ends[0]);
    cpus_.emplace(UniqueFd(ends[1]));
  }
  bool HasAsked() const {
    pollfd poll_of{.fd = asked_.get(), .events = POLLIN, .revents = 0};
    return poll(&poll_of, 1, 0) == 1;
  }
  // Waits for it; nothing where the end has come.
  std::optional<std::int32_t> Asked() const {
    std::int32_t latency_us = -1;
    if (read(asked_.get(), &latency_us, sizeof(latency_us)) != sizeof(latency_us)) return {};
    return latency_us;
  }

  UniqueFd asked_;
  std::optional<AwakeCpus> cpus_;
};

TEST_F(AwakeCpusTest, StayAwakeDuringABurstOfRequests) {
  for (int burst = 0; burst < 2; ++burst) {
    while (!HasAsked()) cpus_->NoteRequest();
    EXPECT_EQ(Asked(), AwakeCpus::kNoLatency);
    EXPECT_EQ(Asked(), AwakeCpus::kAnyLatency) << "nothing has come since";
  }
}

// (A program that does not run for so long ends a burst.)
TEST_F(AwakeCpusTest, StayAwakeAsLongAsRequestsCome) {
  std::atomic<bool> stop{false};
  std::thread program([&] {
    while (!stop) cpus_->NoteRequest();
  });
  pollfd ends{.fd = asked_.get(), .events = POLLIN, .revents = 0};
  do {
    EXPECT_EQ(Asked(), AwakeCpus::kNoLatency);
  } while (poll(&ends, 1, 5 * static_cast<int>(AwakeCpus::kLookMs.count())) == 1 &&
           Asked() == AwakeCpus::kAnyLatency);
  stop = true;
  program.join();
  EXPECT_EQ(Asked(), AwakeCpus::kAnyLatency);
}

TEST_F(AwakeCpusTest, SleepWhereFewRequestsCome) {
  for (std::uint32_t i = 1; i < AwakeCpus::kBurst; ++i) cpus_->NoteRequest();
  cpus_.reset();
  EXPECT_EQ(Asked(), std::nullopt);
}

TEST_F(AwakeCpusTest, SleepAgainWhenTheMountEnds) {
  while (!HasAsked()) cpus_->NoteRequest();
  cpus_.reset();
  EXPECT_EQ(Asked(), AwakeCpus::kNoLatency);
  EXPECT_EQ(Asked(), AwakeCpus::kAnyLatency);
  EXPECT_EQ(Asked(), std::nullopt);
}

}  // namespace
}  // namespace reel::client
