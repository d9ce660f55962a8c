// The seat where fencing the former holder takes longer than a term: two that take it from each
// other in turns serve nobody.
#include <gtest/gtest.h>

#include "mdc/testing/seat_hosts.h"

namespace reel::mdc {
namespace {

using Verdict = SeatWatch::Verdict;

class SlowFenceTest : public SeatTest {};

// A reset of the seat LUN that is slow: the reservation is a's, and the block does not say so yet.
TEST_F(SlowFenceTest, AFenceLongerThanATermIsWaitedFor) {
  const auto taken_by_a = [&] {
    SeatLook look = Look(b_);
    look.reserved_by = 1;
    look.last_reserved = Epoch(1);
    return look;
  };
  ASSERT_EQ(b_.watch.Consider(taken_by_a()), Verdict::kHeld);
  clock_.now_ms += 5'000;
  EXPECT_EQ(b_.watch.Consider(taken_by_a()), Verdict::kHeld) << "a would find b there, and b a";
  clock_.now_ms += 100'000;
  EXPECT_EQ(b_.watch.Consider(taken_by_a()), Verdict::kExpired) << "but not for ever";
}

// The next one dies while it takes over from one that died so.
TEST_F(SlowFenceTest, TheLongerTermIsNotMadeLongerStill) {
  ASSERT_TRUE(a_.seat.Enter(Epoch(1), false).ok());
  SeatLook look = Look(b_);
  look.reserved_by = 2;
  look.last_reserved = Epoch(2);
  ASSERT_EQ(b_.watch.Consider(look), Verdict::kHeld);
  clock_.now_ms += ClaimAfterMs(TakingMs(1500));
  look.began_ms = look.ended_ms = clock_.now_ms;
  EXPECT_EQ(b_.watch.Consider(look), Verdict::kExpired);
}

// The LUNs that it fences next keep beats waiting.
TEST_F(SlowFenceTest, BeatsMayBeSlowUntilTheVolumeIsServed) {
  a_.port.write_ms = 2'000;
  ASSERT_TRUE(a_.seat.Enter(Epoch(1), false).ok());
  EXPECT_EQ(Watch(b_), Verdict::kHeld);
  for (int i = 0; i < 10; ++i) {
    a_.port.before_write = [&] {
      clock_.now_ms += 2'000;
      EXPECT_EQ(Watch(b_), Verdict::kHeld);
    };
    ASSERT_TRUE(a_.seat.Renew().done());
    ASSERT_TRUE(Holds(a_));
    EXPECT_EQ(Watch(b_), Verdict::kHeld);
  }
}

TEST_F(SlowFenceTest, AServedVolumesTermIsShort) {
  ASSERT_TRUE(a_.seat.Enter(Epoch(1), false).ok());
  EXPECT_EQ(a_.seat.until_ms(), clock_.now_ms - 1 + TakingMs(1500));
  EXPECT_EQ(Block().seat_ms, TakingMs(1500));
  ASSERT_EQ(Watch(b_), Verdict::kHeld);
  a_.seat.SetServing();
  ASSERT_TRUE(a_.seat.Renew().done());
  EXPECT_EQ(Block().seat_ms, 1500U);
  ASSERT_EQ(Watch(b_), Verdict::kHeld);
  const std::uint64_t began_ms = clock_.now_ms;
  EXPECT_EQ(WatchFor(b_, 100'000), Verdict::kExpired);
  EXPECT_FALSE(Holds(a_));
  EXPECT_LE(clock_.now_ms, began_ms + ClaimAfterMs(1500) + 2 * SeatLookMs(1500));
}

// The beat that says so may be carried out, and its sender not learn it.
TEST_F(SlowFenceTest, ATermIsShorterFromTheMomentWhenItMayBeRead) {
  for (const bool carried_out : {true, false}) {
    Host a(*this, "a"), b(*this, "b");
    ASSERT_TRUE(a.seat.Enter(Epoch(carried_out ? 1 : 2), false).ok());
    a.seat.SetServing();
    a.port.fail_next = 1;
    a.port.fail_carried_out = carried_out;
    EXPECT_EQ(a.seat.Renew().outcome, ArbitrationOutcome::kUnknown);
    EXPECT_LE(a.seat.until_ms(), clock_.now_ms + 1500);
    EXPECT_EQ(WatchFor(b, 100'000), Verdict::kExpired);
    EXPECT_FALSE(a.seat.Holds(clock_.now_ms));
  }
}

}  // namespace
}  // namespace reel::mdc
