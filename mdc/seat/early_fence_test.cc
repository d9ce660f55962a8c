// A holder that may be fenced within its term, as there are signs that it is gone: what of the
// arbitration block speaks for that and what against, and until when such a holder answers.
#include <gtest/gtest.h>

#include "mdc/testing/seat_hosts.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kSeatMs = 1500;

class EarlyFenceTest : public SeatTest {
 protected:
  EarlyFenceTest() {
    EXPECT_TRUE(a_.seat.Enter(Epoch(1), false).ok());
    a_.seat.SetServing();
    EXPECT_TRUE(Beat());
    a_.seat.Promise();
    key_epoch_ = Epoch(1);
  }
  bool Beat() { return a_.seat.Renew().done(); }
  PeerSuspicion Suspicion(std::uint64_t still_ms) const {
    return {.promise = {.holder = a_.options.holder,
                        .epoch = Epoch(1),
                        .answer_ms = AnswerMs(kSeatMs),
                        .beat_ms = WatchedBeatMs(kSeatMs)},
            .still_ms = still_ms};
  }
  PeerSuspicion Gone() const { return Suspicion(GoneStillMs(WatchedBeatMs(kSeatMs))); }
  SeatLook LookByB() {
    SeatLook look = Look(b_);
    look.reserved_by = key_epoch_ == Epoch(0) ? 0 : key_epoch_.value() + 100;
    look.last_reserved = key_epoch_;
    return look;
  }
  bool StandsStill(const PeerSuspicion& suspicion) {
    const SeatLook look = LookByB();
    EXPECT_EQ(b_.watch.Consider(look), SeatWatch::Verdict::kHeld) << "its term is not over";
    return b_.watch.StandsStill(look, suspicion).has_value();
  }
  // Looks all the time; so long it took, or 0: never.
  std::uint64_t StillAfterMs(const PeerSuspicion& suspicion) {
    for (const std::uint64_t began_ms = clock_.now_ms; clock_.now_ms < began_ms + 1'000;) {
      if (StandsStill(suspicion)) return clock_.now_ms - began_ms;
      clock_.now_ms += SuspectLookMs(kSeatMs);
    }
    return 0;
  }
  bool MayAnswer() const { return a_.seat.MayAnswer(clock_.now_ms); }

  Epoch key_epoch_;  // of the key that holds the reservation; 0: nobody's
};

TEST_F(EarlyFenceTest, AHolderThatBeatsIsLetBeWhateverTheLanSays) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(StandsStill(Gone())) << i;
    clock_.now_ms += WatchedBeatMs(kSeatMs);
    ASSERT_TRUE(Beat());
  }
}

TEST_F(EarlyFenceTest, ABeatThatIsLateNowAndThenIsNoEnd) {
  for (int i = 0; i < 20; ++i) {
    for (int looks = 0; looks < 8; ++looks) {
      ASSERT_FALSE(StandsStill(Gone())) << i;
      clock_.now_ms += SuspectLookMs(kSeatMs);
    }
    ASSERT_TRUE(Beat());
  }
}

TEST_F(EarlyFenceTest, ABlockThatStandsStillIsAsStillAsTheSignWants) {
  for (const std::uint64_t still_ms :
       {GoneStillMs(WatchedBeatMs(kSeatMs)), SilentStillMs(AnswerMs(kSeatMs)),
        StuckStillMs(AnswerMs(kSeatMs))}) {
    ASSERT_TRUE(Beat());
    const std::uint64_t took_ms = StillAfterMs(Suspicion(still_ms));
    EXPECT_GE(took_ms, still_ms);
    EXPECT_LE(took_ms, still_ms + 2 * SuspectLookMs(kSeatMs));
  }
}

TEST_F(EarlyFenceTest, WithoutReservationsTheTermIsWaitedFor) {
  key_epoch_ = Epoch(0);
  EXPECT_EQ(StillAfterMs(Gone()), 0U);
}

TEST_F(EarlyFenceTest, ASeatThatAnotherStandbyTakesIsThatOnes) {
  key_epoch_ = Epoch(2);
  EXPECT_EQ(StillAfterMs(Gone()), 0U) << "its key is there, and its word not yet";
}

TEST_F(EarlyFenceTest, APromiseIsOfOneHolderInOneEpoch) {
  PeerSuspicion other = Gone();
  other.promise.holder = SampleUuid(77);
  EXPECT_EQ(StillAfterMs(other), 0U);
  ASSERT_TRUE(Beat());
  other = Gone();
  other.promise.epoch = Epoch(7);
  EXPECT_EQ(StillAfterMs(other), 0U);
}

TEST_F(EarlyFenceTest, AStandbyWhoseOwnLooksAreSlowWaitsForTheTerm) {
  b_.port.read_ms = PromptLookMs(AnswerMs(kSeatMs)) + 1;
  EXPECT_EQ(StillAfterMs(Gone()), 0U);
}

TEST_F(EarlyFenceTest, TheOldHolderAnswersNobodyWhenItsSuccessorBegins) {
  clock_.now_ms += WatchedBeatMs(kSeatMs);
  a_.port.write_ms = 40;
  ASSERT_TRUE(Beat());
  const SeatLook look = LookByB();
  b_.watch.Consider(look);
  clock_.now_ms = look.ended_ms + AnswersOverMs(AnswerMs(kSeatMs));
  EXPECT_FALSE(MayAnswer());
  EXPECT_TRUE(Holds(a_)) << "its term goes on";
}

TEST_F(EarlyFenceTest, AnswersCountFromBeforeTheBeatThatWasCarriedOut) {
  a_.port.write_ms = 100;
  ASSERT_TRUE(Beat());
  clock_.now_ms += AnswerMs(kSeatMs) - 101;
  EXPECT_TRUE(MayAnswer());
  a_.port.write_ms = 1;
  a_.port.fail_next = 1;
  a_.port.fail_carried_out = true;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kUnknown);
  EXPECT_FALSE(MayAnswer()) << "of what is unknown nothing follows";
  ASSERT_TRUE(Beat());
  EXPECT_TRUE(MayAnswer());
}

TEST_F(EarlyFenceTest, APromiseRunsOutWhereBeatsTakeLong) {
  EXPECT_EQ(a_.seat.Promise().promise.answer_ms, AnswerMs(kSeatMs));
  const std::uint64_t promised_ms = clock_.now_ms;
  a_.port.write_ms = AnswerMs(kSeatMs) + 50;  // carried out, and late
  while (clock_.now_ms < promised_ms + PromiseMs(kSeatMs)) {
    ASSERT_TRUE(Beat());
    EXPECT_EQ(a_.seat.Promise().promise.answer_ms, 0U);
    EXPECT_EQ(MayAnswer(), clock_.now_ms >= promised_ms + PromiseMs(kSeatMs));
  }
  EXPECT_TRUE(Holds(a_)) << "it has its term to rest on";
  a_.port.write_ms = 1;
  ASSERT_TRUE(Beat());
  EXPECT_EQ(a_.seat.Promise().promise.answer_ms, AnswerMs(kSeatMs));
}

TEST_F(EarlyFenceTest, AFencedHolderAnswersNoMore) {
  a_.port.fenced = true;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost);
  EXPECT_FALSE(Holds(a_));
}

}  // namespace
}  // namespace reel::mdc
