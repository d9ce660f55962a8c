#include "client/base/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/status/status.h"
#include "volume/base/thread.h"

namespace reel::client {
namespace {

class StoppedClock final : public Clock {
 public:
  std::uint64_t NowMs() const override { return now_ms; }
  WallTime WallNow() const override { return {}; }
  std::uint64_t now_ms = 1'000;
};

TEST(InterruptTest, AnyOfItsReasonsRaisesIt) {
  bool first = false, second = false;
  const InterruptWhen other([&] { return second; });
  const InterruptWhen any([&] { return first; }, &other);
  EXPECT_FALSE(any.interrupted());
  second = true;
  EXPECT_TRUE(any.interrupted());
  second = false;
  first = true;
  EXPECT_TRUE(any.interrupted());
  EXPECT_FALSE(other.interrupted());
}

TEST(InterruptTest, ADeadlineComesWhenItsTimeIsOver) {
  StoppedClock clock;
  const auto deadline = Deadline(clock, 10);
  clock.now_ms += 9;
  EXPECT_FALSE(deadline.interrupted());
  clock.now_ms += 1;
  EXPECT_TRUE(deadline.interrupted());
}

TEST(InterruptTest, NothingInterruptsWhoHasNone) {
  EXPECT_TRUE(CheckInterrupt(nullptr, "a flush").ok());
}

class WaitForTest : public testing::Test {
 protected:
  absl::Status Wait(const Interrupt* interrupt) {
    MutexLock lock(mutex_);
    return WaitFor(
        changed_, mutex_, [&] { return done_.load(); },
        [&] { return CheckInterrupt(interrupt, "it"); });
  }

  Mutex mutex_;
  CondVar changed_;
  std::atomic<bool> done_{false};
};

TEST_F(WaitForTest, AFinishedWaitIsNotGivenUp) {
  done_ = true;
  const InterruptWhen raised([] { return true; });
  EXPECT_TRUE(Wait(&raised).ok());
}

TEST_F(WaitForTest, AnInterruptEndsItAlthoughNobodyWakesIt) {
  std::atomic<int> asked{0};
  const InterruptWhen third([&] { return ++asked == 3; });
  const absl::Status status = Wait(&third);
  EXPECT_EQ(ErrnoOf(status), EINTR);
  EXPECT_EQ(status.message(), "interrupted while waiting for it");
  EXPECT_EQ(asked, 3);
}

TEST_F(WaitForTest, AWaitEndsWithItsEvent) {
  std::atomic<bool> asked{false};
  const InterruptWhen never([&] {
    asked = true;
    return false;
  });
  Thread other([&] {
    while (!asked) std::this_thread::yield();
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  });
  EXPECT_TRUE(Wait(&never).ok());
  other.Join();
}

}  // namespace
}  // namespace reel::client
