// When a controller finds that its clients do not reach it, and when it does not; and that nobody's
// lease runs while nobody can be heard.
#include "mdc/testing/core_world.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kLimitMs = 1'500;

class UnheardTest : public testing::Test {
 protected:
  UnheardTest() {
    world_.options_.unheard_limit_ms = kLimitMs;
    world_.Restart();
    a_.renews_within_ms_ = b_.renews_within_ms_ = 500;
    a_.Register();
    b_.Register();
    world_.Pass(600, {&a_, &b_});
  }

  World world_;
  Client a_{world_, 1}, b_{world_, 2};
};

TEST_F(UnheardTest, AllAreSilentForTooLong) {
  world_.Pass(kLimitMs);
  EXPECT_FALSE(world_.unheard_);
  world_.Pass(100);
  EXPECT_TRUE(world_.unheard_);
}

TEST_F(UnheardTest, OneThatIsHeardIsEnough) {
  world_.Pass(2 * kLimitMs, {&b_});
  EXPECT_FALSE(world_.unheard_);
  Client plain(world_, 3);  // knows no other controller, and is heard
  plain.Register();
  world_.Pass(2 * kLimitMs, {&plain});
  EXPECT_FALSE(world_.unheard_);
}

TEST_F(UnheardTest, WhoHasLeftIsNotMissed) {
  a_.Disconnect();
  b_.Disconnect();
  world_.Pass(2 * kLimitMs);
  EXPECT_FALSE(world_.unheard_);
}

TEST_F(UnheardTest, WhoMadeNoPromiseOrASlowOneMayBeSilent) {
  a_.renews_within_ms_ = 0;
  b_.renews_within_ms_ = 1'000;
  world_.Pass(100, {&a_, &b_});
  world_.Pass(2 * kLimitMs);
  EXPECT_FALSE(world_.unheard_);
}

TEST_F(UnheardTest, AControllerThatNobodyHasReachedPassesNothingOn) {
  world_.Restart();
  world_.Pass(3 * kLimitMs);
  EXPECT_FALSE(world_.unheard_);
}

TEST_F(UnheardTest, AControllerThatStoodStillItselfMissesNobody) {
  world_.clock_.now_ms += 60'000;
  world_.core_->OnTick();
  world_.Run();
  EXPECT_FALSE(world_.unheard_);
}

TEST_F(UnheardTest, NoStandbyWouldFollowInMaintenance) {
  world_.core_->SetMaintenance(true);
  world_.Pass(2 * kLimitMs);
  EXPECT_FALSE(world_.unheard_);
  world_.core_->SetMaintenance(false);
  world_.Pass(100);
  EXPECT_TRUE(world_.unheard_);
}

TEST_F(UnheardTest, NeverWhereItIsTurnedOff) {
  world_.options_.unheard_limit_ms = 0;
  world_.Restart();
  for (Client* client : {&a_, &b_}) {
    ASSERT_EQ(client->Resume(), 0);
    ASSERT_EQ(client->Reclaim(), 0);
  }
  world_.Pass(100, {&a_, &b_});
  world_.Pass(2 * kLimitMs);
  EXPECT_FALSE(world_.unheard_);
}

class SilenceTest : public testing::Test {
 protected:
  SilenceTest() {
    a_.Register();
    b_.Register();
  }
  std::uint64_t Lease() const { return world_.options_.session_lease_ms; }

  World world_;
  Client a_{world_, 1}, b_{world_, 2};
};

TEST_F(SilenceTest, WhereNobodyIsHeardNobodyIsEvicted) {
  world_.Pass(20 * Lease());
  EXPECT_EQ(world_.Sessions(), 2u);
  world_.Pass(Lease() + 200, {&b_});
  EXPECT_TRUE(a_.evicted_) << "b is heard, and may wait for what a holds";
  EXPECT_EQ(world_.Sessions(), 1u);
}

TEST_F(SilenceTest, WhoComesBackFindsWhatWasLeftOfItsLease) {
  world_.Pass(Lease() / 3, {&b_});  // a was heard that much earlier
  world_.Pass(20 * Lease());
  world_.Pass(Lease() / 2, {&b_});
  world_.Pass(2 * Lease(), {&a_, &b_});
  EXPECT_EQ(world_.Sessions(), 2u);
}

TEST_F(SilenceTest, NoLeaseOfAnEarlierEpochRunsBeforeSomebodyComes) {
  world_.Restart();
  world_.Pass(20 * Lease());
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  world_.Pass(Lease() - 200, {&b_});
  ASSERT_EQ(a_.Resume(), 0) << "a had a whole lease from then on";
  ASSERT_EQ(a_.Reclaim(), 0);
  EXPECT_EQ(world_.Sessions(), 2u);
}

TEST_F(SilenceTest, WhoStaysAwayFromANewEpochIsEvicted) {
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  world_.Pass(Lease() + 200, {&b_});
  EXPECT_EQ(world_.Sessions(), 1u);
}

}  // namespace
}  // namespace reel::mdc
