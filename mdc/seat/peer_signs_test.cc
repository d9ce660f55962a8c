// What is heard of a controller over the LAN, and what of that is a sign that it is gone.
#include "mdc/seat/peer_signs.h"

#include <gtest/gtest.h>

#include "mdc/seat/seat_times.h"
#include "volume/testing/sample_volume.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kAnswerMs = 300, kBeatMs = 75, kForMs = 3'000;

class PeerSignsTest : public testing::Test {
 protected:
  static PeerSaid Serving(std::uint64_t beat_age_ms = 10) {
    return {.promise = {.holder = SampleUuid(1),
                        .epoch = Epoch(7),
                        .answer_ms = kAnswerMs,
                        .beat_ms = kBeatMs,
                        .for_ms = kForMs},
            .beat_age_ms = beat_age_ms};
  }
  void Says(const PeerSaid& said) { signs_.Note({.said = said}, asked_ms_); }
  void Fails(PeerFailure failure) { signs_.Note({.failure = failure}, asked_ms_); }
  // 0: there is no suspicion.
  std::uint64_t StillMs() const {
    const auto suspicion = signs_.Suspicion();
    return suspicion ? suspicion->still_ms : 0;
  }

  std::uint64_t asked_ms_ = 10'000;
  PeerSigns signs_;
};

TEST_F(PeerSignsTest, APromiseLastsFromTheQuestionOnAndIsNotTakenBack) {
  Says(Serving());
  EXPECT_EQ(signs_.promise()->until_ms, asked_ms_ + kForMs);
  asked_ms_ += 1'000;
  PeerSaid slow = Serving();
  slow.promise.answer_ms = 0;  // its beats take long
  Says(slow);
  ASSERT_TRUE(signs_.promise());
  EXPECT_EQ(signs_.promise()->until_ms, asked_ms_ - 1'000 + kForMs);
  EXPECT_EQ(signs_.promise()->answer_ms, kAnswerMs);
  slow.promise.epoch = Epoch(8);
  Says(slow);
  EXPECT_FALSE(signs_.promise()) << "of another epoch nothing was promised";
}

TEST_F(PeerSignsTest, AControllerThatAnswersAndBeatsIsWell) {
  Says(Serving());
  ASSERT_TRUE(signs_.promise());
  EXPECT_EQ(signs_.promise()->epoch, Epoch(7));
  EXPECT_EQ(StillMs(), 0U);
}

TEST_F(PeerSignsTest, OfAControllerThatHasPromisedNothingThereIsNoSuspicion) {
  Fails(PeerFailure::kBroken);
  EXPECT_EQ(StillMs(), 0U) << "it was never reached";
  Says({.promise = {.holder = SampleUuid(1), .epoch = Epoch(7)}});
  Fails(PeerFailure::kBroken);
  EXPECT_EQ(StillMs(), 0U) << "a LUN has no reservations";
}

TEST_F(PeerSignsTest, ABrokenConnectionIsASignAndSoIsSilence) {
  Says(Serving());
  Fails(PeerFailure::kSilent);
  EXPECT_EQ(StillMs(), SilentStillMs(kAnswerMs));
  Fails(PeerFailure::kBroken);
  EXPECT_EQ(StillMs(), GoneStillMs(kBeatMs));
  Fails(PeerFailure::kSilent);
  EXPECT_EQ(StillMs(), GoneStillMs(kBeatMs)) << "it is no less gone";
  Says(Serving());
  EXPECT_EQ(StillMs(), 0U) << "it was the LAN";
}

TEST_F(PeerSignsTest, AControllerThatAnswersButWhoseBeatsDoNotEndIsStuck) {
  Says(Serving(StuckStillMs(kAnswerMs) - 1));
  EXPECT_EQ(StillMs(), 0U);
  Says(Serving(StuckStillMs(kAnswerMs)));
  EXPECT_EQ(StillMs(), StuckStillMs(kAnswerMs));
}

TEST_F(PeerSignsTest, AnotherProcessAtItsAddressSaysThatItIsGone) {
  Says(Serving());
  Says({.promise = {.holder = SampleUuid(2)}});
  EXPECT_EQ(StillMs(), GoneStillMs(kBeatMs));
  EXPECT_EQ(signs_.Suspicion()->promise.holder, SampleUuid(1));
}

TEST_F(PeerSignsTest, AControllerThatSaysThatItServesNoLongerPromisesNothing) {
  Says(Serving());
  Says({.promise = {.holder = SampleUuid(1)}});
  EXPECT_FALSE(signs_.promise());
  Fails(PeerFailure::kBroken);
  EXPECT_EQ(StillMs(), 0U);
}

TEST_F(PeerSignsTest, AnErrorThatSaysThatSomebodyIsThereIsNoSign) {
  Says(Serving());
  Fails(PeerFailure::kBroken);
  Fails(PeerFailure::kRefused);
  EXPECT_EQ(StillMs(), 0U);
}

// So that a claim is never before the holder's last answer, and a holder that beats as it means to
// is never found still.
TEST(PeerTimesTest, TheTimesFitTogether) {
  for (const std::uint64_t seat_ms : {1'000, 1'500, 20'000, 60'000}) {
    const std::uint64_t answer_ms = AnswerMs(seat_ms), beat_ms = WatchedBeatMs(seat_ms);
    EXPECT_GE(GoneStillMs(beat_ms), 2 * beat_ms + WatchedLookMs(seat_ms)) << seat_ms;
    EXPECT_GE(SilentStillMs(answer_ms), GoneStillMs(beat_ms)) << seat_ms;
    EXPECT_GE(answer_ms, 4 * beat_ms) << seat_ms;
    EXPECT_GT(AnswersOverMs(answer_ms), answer_ms) << seat_ms;
    EXPECT_LT(AnswersOverMs(answer_ms), seat_ms) << seat_ms;
  }
}

}  // namespace
}  // namespace reel::mdc
