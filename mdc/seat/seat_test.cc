// Who may take the seat, and how long it is held: on a block that several share, whose writes are
// lost, late or of unknown outcome, and on hosts that stop between a look and what follows it.
#include "mdc/seat/seat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mdc/seat/succession.h"
#include "mdc/testing/seat_hosts.h"

namespace reel::mdc {
namespace {

using State = ArbitrationBlock::State;
using Verdict = SeatWatch::Verdict;
using testing::HasSubstr;

// ---- one at a time ------------------------------------------------------------------------------

TEST_F(SeatTest, AFreshVolumesSeatIsTakenAtOnce) {
  EXPECT_EQ(Watch(a_), Verdict::kFree);
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_TRUE(Holds(a_));
  EXPECT_EQ(Block().address, "a:7440");
  EXPECT_EQ(Block().epoch, Epoch(1));
}

TEST_F(SeatTest, BeatsKeepTheSeat) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  for (int i = 0; i < 100; ++i) {
    clock_.now_ms += BeatIntervalMs(1500);
    EXPECT_EQ(Watch(b_), Verdict::kHeld);
    ASSERT_TRUE(a_.seat.Renew().done());
  }
  EXPECT_TRUE(b_.watch.SawChange());
}

TEST_F(SeatTest, ATermEndsByItselfAndOnlyThenAnotherMayClaim) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
  EXPECT_FALSE(Holds(a_)) << "before the standby may claim";
  EXPECT_GE(clock_.now_ms, a_.seat.until_ms() + SeatMarginMs(1500) - 2);
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost) << "what is over stays over";
  ASSERT_TRUE(Claim(b_, 2).ok());
  EXPECT_EQ(Block().address, "b:7440");
}

TEST_F(SeatTest, WhoWasUnheardLeavesAnExpiredSeatToOthersForATermMore) {
  SeatOptions unheard = b_.options;
  unheard.stands_back = true;
  SeatWatch watch(unheard);
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(watch.Consider(Look(b_)), Verdict::kHeld);
  clock_.now_ms += 2 * ClaimAfterMs(1500) - 2;
  EXPECT_EQ(watch.Consider(Look(b_)), Verdict::kHeld);
  clock_.now_ms += 2;
  EXPECT_EQ(watch.Consider(Look(b_)), Verdict::kExpired);
  EXPECT_TRUE(watch.stands_back()) << "a claim alone is nobody at work";
  ASSERT_TRUE(a_.seat.Renew().outcome == ArbitrationOutcome::kLost);
}

TEST_F(SeatTest, WhoWasUnheardIsAsOthersAreWhenAnotherOneHasServed) {
  SeatOptions unheard = b_.options;
  unheard.stands_back = true;
  SeatWatch watch(unheard);
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(watch.Consider(Look(b_)), Verdict::kHeld);
  ASSERT_TRUE(a_.seat.Renew().done());
  EXPECT_EQ(watch.Consider(Look(b_)), Verdict::kHeld);
  EXPECT_FALSE(watch.stands_back());
  clock_.now_ms += ClaimAfterMs(1500);
  EXPECT_EQ(watch.Consider(Look(b_)), Verdict::kExpired);
}

TEST_F(SeatTest, ASeatGivenUpIsFreeAtOnce) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  ASSERT_TRUE(a_.seat.GiveUp({}).done());
  EXPECT_FALSE(Holds(a_));
  EXPECT_EQ(Watch(b_), Verdict::kFree);
  EXPECT_EQ(Watch(a_), Verdict::kFree) << "a restart";
}

// Found by the model (tests/model/seat_lease.pml): free means that nobody waits.
TEST_F(SeatTest, ASeatWhoseTermIsOverIsNotGivenUp) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  a_.port.after_read = [&] {
    ASSERT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
    ASSERT_TRUE(Claim(b_, 2).ok());
  };
  EXPECT_EQ(a_.seat.GiveUp({}).outcome, ArbitrationOutcome::kLost);
  EXPECT_EQ(Block().state, State::kHeld);
  EXPECT_TRUE(Holds(b_));
}

TEST_F(SeatTest, AnOfferingControllerLetsOthersClaimFirst) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  ASSERT_TRUE(a_.seat.GiveUp({.state = State::kOffered}).done());
  EXPECT_EQ(Watch(b_), Verdict::kFree);
  EXPECT_EQ(Watch(a_), Verdict::kHeld);
  EXPECT_EQ(WatchFor(a_, 10'000), Verdict::kExpired) << "where there is nobody else";
}

TEST_F(SeatTest, AnOfferToOneStandbyIsForThatOneFirst) {
  Host c(*this, "c");
  ASSERT_TRUE(Claim(a_, 1).ok());
  ASSERT_TRUE(a_.seat.GiveUp({.state = State::kOffered, .successor = c.options.holder}).done());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  EXPECT_EQ(Watch(c), Verdict::kFree);
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired) << "where that one is gone";
  ASSERT_TRUE(Claim(c, 2).ok());
  EXPECT_TRUE(Block().successor.is_nil());
}

// ---- what administrators want -------------------------------------------------------------------

TEST_F(SeatTest, AStoppedVolumeWaitsForAnOrder) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  ASSERT_TRUE(a_.seat.GiveUp({.stopped = true}).done());
  for (Host* host : {&a_, &b_}) {
    EXPECT_EQ(Watch(*host), Verdict::kFree) << "tools may work on it";
    const absl::Status no = MayFollow(Look(*host), host->options, /*ordered=*/false);
    EXPECT_TRUE(absl::IsFailedPrecondition(no));
    EXPECT_NE(no.message().find("reeladm start"), no.message().npos);
    EXPECT_TRUE(MayFollow(Look(*host), host->options, /*ordered=*/true).ok());
  }
  // A tool gives it back as it was; who serves it has started it.
  a_.seat.Inherit(Look(a_), /*stays_stopped=*/true);
  ASSERT_TRUE(Claim(a_, 2).ok());
  ASSERT_TRUE(a_.seat.GiveUp({}).done());
  EXPECT_TRUE(Block().stopped);
  b_.seat.Inherit(Look(b_));
  ASSERT_TRUE(Claim(b_, 3).ok());
  EXPECT_FALSE(Block().stopped);
}

TEST_F(SeatTest, InMaintenanceOnlyTheLastHolderClaims) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  a_.seat.SetMaintenance(true);
  ASSERT_TRUE(a_.seat.Renew().done());
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
  EXPECT_TRUE(absl::IsFailedPrecondition(MayFollow(Look(b_), b_.options, false)));
  EXPECT_TRUE(MayFollow(Look(b_), b_.options, /*ordered=*/true).ok());
  SeatOptions restarted = a_.options;
  restarted.holder = SampleUuid(42);
  EXPECT_TRUE(MayFollow(Look(a_), restarted, false).ok());
  // It lasts through takeovers, until it is ended.
  b_.seat.Inherit(Look(b_));
  ASSERT_TRUE(Claim(b_, 2).ok());
  EXPECT_TRUE(Block().maintenance);
  EXPECT_TRUE(b_.seat.maintenance());
  ASSERT_TRUE(b_.seat.GiveUp({.state = State::kOffered, .successor = a_.options.holder}).done());
  EXPECT_TRUE(MayFollow(Look(a_), a_.options, false).ok()) << "it was named";
  a_.seat.Inherit(Look(a_));
  ASSERT_TRUE(Claim(a_, 3).ok());
  a_.seat.SetMaintenance(false);
  ASSERT_TRUE(a_.seat.Renew().done());
  EXPECT_TRUE(MayFollow(Look(b_), b_.options, false).ok());
}

// ---- other volumes ------------------------------------------------------------------------------

// Its controller may be alive, and not know that the LUN is its volume's no more.
TEST_F(SeatTest, AnotherVolumesBlockIsFreeOnlyWithoutBeats) {
  Host other(*this, "other");
  SeatOptions options = other.options;
  options.volume = SampleUuid(77);
  Seat seat(other.port, clock_, options);
  ASSERT_TRUE(seat.Claim(Look(other), Epoch(7), false).ok());
  for (int i = 0; i < 20; ++i) {
    clock_.now_ms += BeatIntervalMs(1500);
    EXPECT_EQ(Watch(a_), Verdict::kHeld);
    ASSERT_TRUE(seat.Renew().done());
  }
  EXPECT_EQ(WatchFor(a_, 10'000), Verdict::kExpired);
  EXPECT_FALSE(seat.Holds(clock_.now_ms));
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(Block().volume, a_.options.volume);
}

TEST_F(SeatTest, ALunOfAnotherVolumeIsNeitherTakenNorBeatenOn) {
  const SeatLook look = Look(b_);
  b_.port.remade = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(b_.seat.Claim(look, Epoch(1), false)));
  EXPECT_TRUE(absl::IsAborted(b_.seat.Enter(Epoch(1), false)));
  ASSERT_TRUE(Claim(a_, 1).ok());
  const std::string before = block_;
  a_.port.remade = true;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost);
  EXPECT_EQ(a_.seat.GiveUp({}).outcome, ArbitrationOutcome::kLost);
  EXPECT_FALSE(Holds(a_));
  EXPECT_EQ(block_, before);
}

TEST_F(SeatTest, AClaimFailsWhenTheLunChangesItsVolume) {
  a_.port.after_wait = [&] { a_.port.remade = true; };
  EXPECT_TRUE(absl::IsFailedPrecondition(Claim(a_, 1)));
  EXPECT_FALSE(Holds(a_));
}

TEST_F(SeatTest, AClaimEndsAtAnotherVolumesActiveController) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  ArbitrationBlock other = Block();
  other.volume = SampleUuid(77);
  block_ = EncodeArbitration(other);
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost);
  EXPECT_EQ(Block().volume, SampleUuid(77));
  ASSERT_TRUE(b_.seat.Enter(Epoch(2), false).ok()) << "where the reservation keeps it out";
}

TEST_F(SeatTest, ADamagedBlockIsWatchedAndANewerFormatIsHeld) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  block_[100] = static_cast<char>(block_[100] ^ 1);
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
  ASSERT_TRUE(Claim(a_, 1).ok());
  StoreU32(block_.data() + 8, 3);
  StoreU32(block_.data() + 12,
           ExtendCrc32c(Crc32c(AsBytes(block_).first(12)), AsBytes(block_).subspan(16)));
  EXPECT_EQ(WatchFor(b_, 100'000), Verdict::kHeld) << "it knows something that we do not";
}

TEST_F(SeatTest, ALongerTermOfTheHolderIsWaitedFor) {
  Host slow(*this, "slow");
  SeatOptions options = slow.options;
  options.seat_ms = 5000;
  Seat seat(slow.port, clock_, options);
  ASSERT_TRUE(seat.Claim(Look(slow), Epoch(1), false).ok());
  EXPECT_EQ(WatchFor(b_, 100'000), Verdict::kExpired);
  EXPECT_FALSE(seat.Holds(clock_.now_ms));
}

// ---- writes that fail ---------------------------------------------------------------------------

TEST_F(SeatTest, AClaimOfUnknownOutcomeFails) {
  a_.port.fail_next = 1;
  a_.port.fail_carried_out = true;
  EXPECT_TRUE(absl::IsUnavailable(Claim(a_, 1)));
  EXPECT_FALSE(Holds(a_));
  EXPECT_EQ(Watch(a_), Verdict::kHeld) << "its own word is no better than another's";
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
}

TEST_F(SeatTest, ABeatOfUnknownOutcomeProlongsNothing) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  const std::uint64_t until_ms = a_.seat.until_ms();
  clock_.now_ms += 500;
  a_.port.fail_next = 1;
  a_.port.fail_carried_out = true;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kUnknown);
  EXPECT_EQ(a_.seat.until_ms(), until_ms);
  EXPECT_TRUE(a_.seat.Renew().done()) << "and is tried again";
  EXPECT_GT(a_.seat.until_ms(), until_ms);
}

TEST_F(SeatTest, APathThatIsLostEndsTheTermInTime) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  a_.port.broken = true;
  ArbitrationResult result = a_.seat.Renew();
  while (result.outcome != ArbitrationOutcome::kLost) {
    EXPECT_FALSE(result.done());
    clock_.now_ms += BeatRetryMs(1500);
    EXPECT_EQ(Watch(b_), Verdict::kHeld);
    result = a_.seat.Renew();
  }
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
}

// The beat is there, but a standby may have looked just before it.
TEST_F(SeatTest, ABeatThatIsCarriedOutTooLateDoesNotCount) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  a_.port.write_ms = 2000;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost);
  EXPECT_FALSE(Holds(a_));
}

TEST_F(SeatTest, AFencedControllerLosesTheSeat) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  a_.port.fenced = true;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost);
  EXPECT_FALSE(Holds(a_));
}

// ---- hosts that stop ----------------------------------------------------------------------------

// With all that a host does: it looks at the clock, and stops before the write that it allowed.
TEST_F(SeatTest, ABeatSentBeforeAPauseDoesNotUnseatTheNextHolder) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  a_.port.before_write = [&] {
    ASSERT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
    ASSERT_TRUE(Claim(b_, 2).ok());
  };
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost) << "it looks again afterwards";
  EXPECT_FALSE(Holds(a_));
  EXPECT_EQ(Block().epoch, Epoch(1)) << "without reservations nothing kept it out";
  EXPECT_TRUE(b_.seat.Renew().done()) << "whose word is the later one";
  EXPECT_EQ(Block().epoch, Epoch(2));
}

TEST_F(SeatTest, APausedControllerFindsItsTermOver) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  EXPECT_EQ(WatchFor(b_, 10'000), Verdict::kExpired);
  ASSERT_TRUE(Claim(b_, 2).ok());
  const std::string before = block_;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kLost);
  EXPECT_EQ(block_, before) << "it wrote nothing";
}

// ---- several that claim -------------------------------------------------------------------------

TEST_F(SeatTest, OfTwoClaimsAtOnceOneSucceeds) {
  // b looks and writes between a's write and a's look back.
  SeatLook look = Look(b_);
  a_.port.after_write = [&] {
    b_.port.read_ms = 0;
    EXPECT_TRUE(absl::IsAborted(b_.seat.Claim(look, Epoch(1), false))) << "a was there before";
  };
  EXPECT_TRUE(Claim(a_, 1).ok());
  EXPECT_FALSE(Holds(b_));
}

TEST_F(SeatTest, TheLaterWriteWinsAndTheEarlierWriterSeesIt) {
  absl::Status other;
  b_.port.before_write = [&] { other = Claim(a_, 1); };
  // a is through all of it while b stands between its look and its write: b was too slow.
  EXPECT_TRUE(absl::IsAborted(Claim(b_, 1)));
  ASSERT_TRUE(other.ok()) << other;
  EXPECT_FALSE(Holds(b_));
  EXPECT_THAT(a_.seat.Renew().status.message(), HasSubstr("b:7440"))
      << "a stops at once, rather than believe in a block that another one has written";
  EXPECT_FALSE(Holds(a_));
}

TEST_F(SeatTest, ASlowClaimFails) {
  a_.port.write_ms = ClaimWriteMs() + 1;
  EXPECT_TRUE(absl::IsAborted(Claim(a_, 1)));
  EXPECT_FALSE(Holds(a_));
}

TEST_F(SeatTest, AWriteWithinTheBoundIsSeenWhenTheOtherLooksBack) {
  // b writes at the last moment that a claim may, counted from a look just before a's write.
  SeatLook look = Look(b_);
  a_.port.after_wait = [&] {
    Host late(*this, "late");
    ArbitrationBlock block = Block();
    block.holder = late.options.holder;
    block_ = EncodeArbitration(block);
  };
  EXPECT_TRUE(absl::IsAborted(Claim(a_, 1)));
  EXPECT_FALSE(Holds(a_));
  EXPECT_GT(ClaimWaitMs(ClaimWriteMs()), ClaimWriteMs());
}

// ---- with reservations --------------------------------------------------------------------------

TEST_F(SeatTest, TheReservationHolderOverwritesTheBlock) {
  ASSERT_TRUE(Claim(a_, 1).ok());
  a_.port.fail_next = 1;
  a_.port.fail_late = true;
  EXPECT_EQ(a_.seat.Renew().outcome, ArbitrationOutcome::kUnknown);
  ASSERT_TRUE(b_.seat.Enter(Epoch(2), false).ok());
  a_.port.LandLateWrites();  // not drained, this time
  EXPECT_TRUE(b_.seat.Renew().done());
  EXPECT_EQ(Block().epoch, Epoch(2));
  EXPECT_TRUE(absl::IsAborted(a_.seat.Enter(Epoch(1), false))) << "an epoch that is past";
}

TEST_F(SeatTest, AFailedEntryIsRepeatedAndBounded) {
  a_.port.fail_next = 2;
  EXPECT_TRUE(a_.seat.Enter(Epoch(1), false).ok());
  b_.port.broken = true;
  EXPECT_TRUE(absl::IsUnavailable(b_.seat.Enter(Epoch(2), false)));
  EXPECT_FALSE(Holds(b_));
}

TEST_F(SeatTest, AReservationThatChangesHandsCountsAsABeat) {
  SeatLook look = Look(b_);
  look.reserved_by = 1;
  look.last_reserved = Epoch(1);
  EXPECT_EQ(b_.watch.Consider(look), Verdict::kHeld)
      << "free, but somebody may have taken it and not yet written that down";
  clock_.now_ms += ClaimAfterMs(TakingMs(1500));
  look = Look(b_);
  look.reserved_by = 2;
  look.last_reserved = Epoch(1);
  EXPECT_EQ(b_.watch.Consider(look), Verdict::kHeld) << "and now another one";
  clock_.now_ms += ClaimAfterMs(TakingMs(1500)) + 10;
  look.began_ms = look.ended_ms = clock_.now_ms;
  EXPECT_EQ(b_.watch.Consider(look), Verdict::kExpired);
}

}  // namespace
}  // namespace reel::mdc
