// The threads that keep the seat, and end its holder: real threads, time as the test says.
#include "mdc/seat/heartbeat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <span>

#include "mdc/seat/watchdog.h"
#include "volume/base/coding.h"
#include "volume/testing/counting_clock.h"
#include "volume/testing/sample_volume.h"

namespace reel::mdc {
namespace {

// One block, and how often it was written.
class BeatPort final : public ArbitrationPort {
 public:
  absl::StatusOr<std::string> Read() override {
    MutexLock lock(mutex_);
    return block_;
  }
  ArbitrationResult Write(const ArbitrationBlock& block) override {
    if (on_write) on_write();
    MutexLock lock(mutex_);
    block_ = EncodeArbitration(block);
    ++writes_;
    changed_.NotifyAll();
    return {ArbitrationOutcome::kDone, {}};
  }
  void Wait(std::uint64_t) override {}
  std::function<void()> on_write;  // set before there is a thread

  void Put(const ArbitrationBlock& block) {
    MutexLock lock(mutex_);
    block_ = EncodeArbitration(block);
  }
  int writes() {
    MutexLock lock(mutex_);
    return writes_;
  }
  void AwaitWrites(int count) {
    MutexLock lock(mutex_);
    while (writes_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::string block_ ABSL_GUARDED_BY(mutex_) = std::string(kArbitrationBytes, '\0');
  int writes_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Happened {
 public:
  void Signal() {
    MutexLock lock(mutex_);
    reported_ = true;
    changed_.NotifyAll();
  }
  void Await() {
    MutexLock lock(mutex_);
    while (!reported_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool reported_ ABSL_GUARDED_BY(mutex_) = false;
};

class HeartbeatTest : public testing::Test {
 protected:
  HeartbeatTest() { EXPECT_TRUE(seat_.Enter(Epoch(1), true).ok()); }
  static SeatOptions Options() {
    SeatOptions options;
    options.volume = SampleUuid(9);
    options.seat_ms = 60;  // short, for the waits between beats are real
    return options;
  }
  // One that has told that another has the seat.
  std::unique_ptr<Heartbeat> BeatUntilLost() {
    Heartbeat::Events events;
    events.lost = [this](const absl::Status&) {
      ++times_lost_;
      lost_.Signal();
    };
    AnotherTakesTheSeat();
    auto heartbeat = std::make_unique<Heartbeat>(seat_, clock_, std::move(events));
    clock_.now_ms += BeatIntervalMs(60);
    lost_.Await();
    return heartbeat;
  }
  void AnotherTakesTheSeat() {
    ArbitrationBlock other;
    other.state = ArbitrationBlock::State::kHeld;
    other.volume = Options().volume;
    other.epoch = Epoch(2);
    port_.Put(other);
  }
  CountingClock clock_;
  BeatPort port_;
  Seat seat_{port_, clock_, Options()};
  Happened lost_;
  std::atomic<int> times_lost_ = 0;
};

TEST_F(HeartbeatTest, BeatsFollowTheClockWhileTheCoreMoves) {
  Heartbeat heartbeat(seat_, clock_, {});
  for (int beat = 2; beat < 20; ++beat) {
    clock_.now_ms += BeatIntervalMs(60);
    heartbeat.Progress();
    port_.AwaitWrites(beat);
    EXPECT_TRUE(seat_.Holds(clock_.NowMs()));
  }
}

TEST_F(HeartbeatTest, ItIsKnownHowLongBeatsTook) {
  port_.on_write = [this] { clock_.now_ms += 7; };
  Heartbeat heartbeat(seat_, clock_, {});
  for (int beat = 2; beat < 5; ++beat) {
    clock_.now_ms += BeatIntervalMs(60);
    heartbeat.Progress();
    port_.AwaitWrites(beat);
  }
  heartbeat.Stop();
  const TimeHistogram beats = heartbeat.Beats();
  const std::span<const std::uint64_t> counts = beats.counts;
  const auto quicker = counts.first(TimeHistogram::BucketOf(7'000));
  EXPECT_EQ(std::accumulate(quicker.begin(), quicker.end(), std::uint64_t{0}), 0U);
  EXPECT_GE(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 3U);
  EXPECT_GE(beats.sum_us, 21'000U);
}

TEST_F(HeartbeatTest, AControllerThatIsWatchedBeatsOftener) {
  Heartbeat heartbeat(seat_, clock_, {});
  heartbeat.Progress();
  heartbeat.Hasten();
  for (int beat = 2; beat < 20; ++beat) {
    clock_.now_ms += WatchedBeatMs(60);
    heartbeat.Progress();
    port_.AwaitWrites(beat);
    EXPECT_TRUE(seat_.MayAnswer(clock_.NowMs()));
  }
}

TEST_F(HeartbeatTest, AStalledCoreLosesTheSeat) {
  Happened expired;
  Heartbeat heartbeat(seat_, clock_, {});
  heartbeat.Progress();
  clock_.now_ms += BeatIntervalMs(60);
  port_.AwaitWrites(2);
  // No more progress: the thread runs on, and must not beat although a beat is due and the term
  // still holds. One pass of it looks at the clock ten times at most.
  clock_.now_ms += ProgressLimitMs(60) - BeatIntervalMs(60);
  ASSERT_TRUE(seat_.Holds(clock_.NowMs()));
  clock_.AwaitLooks(30);
  EXPECT_EQ(port_.writes(), 2);
  Watchdog watchdog(seat_, clock_, [&] { expired.Signal(); });
  clock_.now_ms += 60;
  expired.Await();
  heartbeat.Stop();
  EXPECT_EQ(port_.writes(), 2);
}

TEST_F(HeartbeatTest, ASlowBeatIsToldForAWhileWithTheTermThatItWants) {
  Happened beaten;
  Heartbeat::Events events;
  events.beaten = [&] { beaten.Signal(); };
  port_.on_write = [this] { clock_.now_ms += 40; };
  Heartbeat heartbeat(seat_, clock_, std::move(events));
  heartbeat.Progress();
  EXPECT_EQ(heartbeat.SlowBeat(), "");
  clock_.now_ms += BeatIntervalMs(60);
  beaten.Await();
  const std::string told = heartbeat.SlowBeat();
  EXPECT_NE(told.find("took 40 ms"), told.npos) << told;
  EXPECT_NE(told.find("seat_ms = 500 "), told.npos) << told;
  heartbeat.Stop();
  clock_.now_ms += SlowBeatShownMs() - 1;
  EXPECT_EQ(heartbeat.SlowBeat(), told);
  clock_.now_ms += 1;
  EXPECT_EQ(heartbeat.SlowBeat(), "");
}

TEST_F(HeartbeatTest, AChangeIsReportedWithItsDurableBeat) {
  Happened reported;
  std::atomic<int> written = 0;
  Heartbeat::Events events;
  events.flush = [&] {
    written = port_.writes();
    return absl::OkStatus();
  };
  Heartbeat heartbeat(seat_, clock_, std::move(events));
  heartbeat.Change([](Seat& seat) { seat.SetMaintenance(true); },
                   [&](const absl::Status& status) {
                     EXPECT_TRUE(status.ok()) << status;
                     reported.Signal();
                   });
  reported.Await();  // although no beat is due
  EXPECT_EQ(written, 2);
  const std::string block = *port_.Read();
  EXPECT_TRUE(DecodeArbitration(AsBytes(block))->maintenance);
}

TEST_F(HeartbeatTest, AnImpossibleChangeIsReported) {
  absl::Status reported;
  const auto heartbeat = BeatUntilLost();
  heartbeat->Change([](Seat& seat) { seat.SetMaintenance(true); },
                    [&](const absl::Status& status) { reported = status; });
  heartbeat->Stop();
  EXPECT_TRUE(absl::IsUnavailable(reported)) << reported;
}

TEST_F(HeartbeatTest, ALostSeatIsReportedOnce) {
  const auto heartbeat = BeatUntilLost();
  EXPECT_FALSE(seat_.Holds(clock_.NowMs()));
  clock_.now_ms += BeatIntervalMs(60);
  heartbeat->Stop();
  EXPECT_EQ(times_lost_, 1);
}

TEST_F(HeartbeatTest, TheWatchdogWaitsForNoThread) {
  Happened expired;
  Watchdog watchdog(seat_, clock_, [&] { expired.Signal(); });
  clock_.now_ms += 3'600'000;  // as after a suspended host's wake
  expired.Await();
}

TEST_F(HeartbeatTest, ADisarmedWatchdogIsQuiet) {
  std::atomic<bool> expired = false;
  {
    Watchdog watchdog(seat_, clock_, [&] { expired = true; });
    watchdog.Disarm();
    clock_.now_ms += 3'600'000;
  }
  EXPECT_FALSE(expired);
}

}  // namespace
}  // namespace reel::mdc
