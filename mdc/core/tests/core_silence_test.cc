// When a controller finds that its clients do not reach it, and when it does not; and that nobody's
// lease runs while nobody can be heard.
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kLimitMs = 1'500;

class SilentSessionsTest : public testing::Test {
 protected:
  SilentSessionsTest() {
    harness_.options_.unheard_limit_ms = kLimitMs;
    harness_.Restart();
    a_.renews_within_ms_ = b_.renews_within_ms_ = 500;
    a_.Register();
    b_.Register();
    harness_.Pass(600, {&a_, &b_});
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(SilentSessionsTest, AllSessionsAreSilentForTooLong) {
  harness_.Pass(kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
  harness_.Pass(100);
  EXPECT_EQ(harness_.unheard_, 1U);
}

TEST_F(SilentSessionsTest, OneHeardSessionIsEnough) {
  harness_.Pass(2 * kLimitMs, {&b_});
  EXPECT_EQ(harness_.unheard_, 0U);
  Client plain(harness_, 3);  // knows no other controller, and is heard
  plain.Register();
  harness_.Pass(2 * kLimitMs, {&plain});
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, AnUnmountedSessionIsNotMissed) {
  a_.Disconnect();
  b_.Disconnect();
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, AStreamThatTheSilenceHasEndedIsMissed) {
  harness_.Pass(kLimitMs - 100);
  a_.Disconnect();
  b_.Disconnect();
  harness_.Pass(200);
  EXPECT_EQ(harness_.unheard_, 1U);
}

TEST_F(SilentSessionsTest, WhoIsGoneSinceAnEarlierSilenceIsNotMissed) {
  harness_.Pass(kLimitMs - 100);
  a_.Disconnect();
  harness_.Pass(300, {&b_});
  b_.Disconnect();
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, WhoCameBackAndLeftIsNotMissed) {
  harness_.Pass(kLimitMs - 100);
  for (Client* client : {&a_, &b_}) {
    client->Disconnect();
    ASSERT_EQ(client->Resume(), 0);
  }
  a_.Disconnect();
  b_.Disconnect();
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, SessionsWithoutAPromiseMayBeSilent) {
  a_.renews_within_ms_ = 0;
  b_.renews_within_ms_ = 1'000;
  harness_.Pass(100, {&a_, &b_});
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, AControllerThatNoClientReachedHandsNothingOver) {
  harness_.Restart();
  harness_.Pass(3 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

// As a daemon that has begun anew, and got the seat back.
TEST_F(SilentSessionsTest, WhoHasTheSeatAgainAndIsUnheardStillPassesItOnAgain) {
  harness_.options_.unheard_before = 1;
  harness_.Restart();
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
  harness_.Pass(100);
  EXPECT_EQ(harness_.unheard_, 2U);
}

TEST_F(SilentSessionsTest, TheWaitDoublesAndNotForEver) {
  for (const auto& [before, doublings] : {std::pair{3U, 3}, std::pair{1000U, 6}}) {
    harness_.unheard_ = 0;
    harness_.options_.unheard_before = before;
    harness_.Restart();
    harness_.Pass(kLimitMs << doublings);
    EXPECT_EQ(harness_.unheard_, 0U);
    harness_.Pass(100);
    EXPECT_EQ(harness_.unheard_, before + 1);
  }
}

TEST_F(SilentSessionsTest, WhoeverIsHeardInAnotherVolumeProvesTheCableWhole) {
  harness_.options_.heard_ms = std::make_shared<std::atomic<std::uint64_t>>(0);
  harness_.Restart();
  for (Client* client : {&a_, &b_}) {
    ASSERT_EQ(client->Resume(), 0);
    ASSERT_EQ(client->Reclaim(), 0);
  }
  harness_.Pass(100, {&a_, &b_});
  for (int i = 0; i < 4; ++i) {
    harness_.options_.heard_ms->store(harness_.clock_.NowMs());
    harness_.Pass(kLimitMs);
  }
  EXPECT_EQ(harness_.unheard_, 0U);
  harness_.Pass(100);
  EXPECT_EQ(harness_.unheard_, 1U);
}

TEST_F(SilentSessionsTest, WhoHasTheSeatAgainAndWasHeardBeginsToCountAnew) {
  harness_.options_.unheard_before = 3;
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  harness_.Pass(100, {&a_});
  harness_.Pass(kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
  harness_.Pass(100);
  EXPECT_EQ(harness_.unheard_, 1U);
}

TEST_F(SilentSessionsTest, WhoHasTheSeatAgainMissesNobodyWhereThereIsNoSession) {
  for (Client* client : {&a_, &b_}) {
    v1::Request goodbye;
    goodbye.mutable_goodbye();
    client->Send(goodbye);
  }
  harness_.Run();
  harness_.options_.unheard_before = 1;
  harness_.Restart();
  harness_.Pass(4 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, AStalledControllerMissesNoSession) {
  harness_.clock_.now_ms += 60'000;
  harness_.core_->OnTick();
  harness_.Run();
  EXPECT_EQ(harness_.unheard_, 0U);
}

TEST_F(SilentSessionsTest, NoStandbyWouldFollowInMaintenance) {
  harness_.core_->SetMaintenance(true);
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
  harness_.core_->SetMaintenance(false);
  harness_.Pass(100);
  EXPECT_EQ(harness_.unheard_, 1U);
}

TEST_F(SilentSessionsTest, SilenceIsIgnoredWhereTurnedOff) {
  harness_.options_.unheard_limit_ms = 0;
  harness_.Restart();
  for (Client* client : {&a_, &b_}) {
    ASSERT_EQ(client->Resume(), 0);
    ASSERT_EQ(client->Reclaim(), 0);
  }
  harness_.Pass(100, {&a_, &b_});
  harness_.Pass(2 * kLimitMs);
  EXPECT_EQ(harness_.unheard_, 0U);
}

class SilenceTest : public testing::Test {
 protected:
  SilenceTest() {
    a_.Register();
    b_.Register();
  }
  std::uint64_t Lease() const { return harness_.options_.session_lease_ms; }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(SilenceTest, GeneralSilenceEvictsNoSession) {
  harness_.Pass(20 * Lease());
  EXPECT_EQ(harness_.Sessions(), 2u);
  harness_.Pass(Lease() + 200, {&b_});
  EXPECT_TRUE(a_.evicted_) << "b is heard, and may wait for what a holds";
  EXPECT_EQ(harness_.Sessions(), 1u);
}

TEST_F(SilenceTest, AReturningSessionFindsTheRestOfItsLease) {
  harness_.Pass(Lease() / 3, {&b_});  // a was heard that much earlier
  harness_.Pass(20 * Lease());
  harness_.Pass(Lease() / 2, {&b_});
  harness_.Pass(2 * Lease(), {&a_, &b_});
  EXPECT_EQ(harness_.Sessions(), 2u);
}

TEST_F(SilenceTest, EarlierLeasesRunOnlyOnceASessionReturns) {
  harness_.Restart();
  harness_.Pass(20 * Lease());
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  harness_.Pass(Lease() - 200, {&b_});
  ASSERT_EQ(a_.Resume(), 0) << "a had a whole lease from then on";
  ASSERT_EQ(a_.Reclaim(), 0);
  EXPECT_EQ(harness_.Sessions(), 2u);
}

TEST_F(SilenceTest, ASessionMissingFromANewEpochIsEvicted) {
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  harness_.Pass(Lease() + 200, {&b_});
  EXPECT_EQ(harness_.Sessions(), 1u);
}

}  // namespace
}  // namespace reel::mdc
