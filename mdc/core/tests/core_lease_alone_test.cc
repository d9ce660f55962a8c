// How sessions end where no LUN can cut them off: by the lease, and by what may still be executed.
#include "gmock/gmock.h"
#include "mdc/testing/core_world.h"

namespace reel::mdc {
namespace {

using testing::SizeIs;

class LeaseAloneTest : public testing::Test {
 protected:
  LeaseAloneTest() : LeaseAloneTest(/*keyless_quarantine_ms=*/0) {}
  explicit LeaseAloneTest(std::uint64_t keyless_quarantine_ms) {
    world_.options_.keyless_quarantine_ms = keyless_quarantine_ms;
    world_.Restart();
    a_.Register();
    b_.Register();
  }
  // a_ writes a file; b_ wants to read it.
  void Write() {
    const std::uint64_t file = a_.Create("file");
    ASSERT_EQ(a_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
    wanted_ = b_.Send(Client::LayoutOf(file, v1::TOKEN_SHARED));
    world_.Run();
  }
  void Evict(const Client& client) {
    ASSERT_TRUE(world_.core_->EvictSession(SessionId(client.session_), "a test").ok());
    world_.Run();
  }
  // b_ goes on in the next epoch.
  void Restart() {
    world_.Restart();
    EXPECT_EQ(a_.Resume(), ESTALE);
    ASSERT_EQ(b_.Resume(), 0);
    ASSERT_EQ(b_.Reclaim(), 0);
    wanted_ = b_.Send(Client::GetAttrOf(1));
    world_.Run();
  }
  bool Waits() const { return !b_.Answered(wanted_); }
  bool IsServed() const { return b_.Answered(wanted_) && b_.Answer(wanted_).error() == 0; }

  static constexpr std::uint64_t kLeaseMs = 10'000;
  World world_;
  Client a_{world_, 1}, b_{world_, 2};
  std::uint64_t wanted_ = 0;
};

TEST_F(LeaseAloneTest, WhoIsEvictedKeepsWhatItHeldUntilItsLeaseIsOver) {
  Write();
  world_.Pass(3'000, {&b_});
  Evict(a_);
  EXPECT_TRUE(a_.evicted_);
  world_.Pass(kLeaseMs - 3'100, {&a_, &b_});  // what it still sends does not make it longer
  EXPECT_TRUE(Waits());
  world_.Pass(100, {&b_});
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(world_.Sessions(), 1U);
}

TEST_F(LeaseAloneTest, WhoIsEvictedAsTheLastOneEndsThoughNobodyIsHeard) {
  world_.Pass(kLeaseMs);
  Evict(a_);
  Evict(b_);
  world_.Pass(kLeaseMs);
  EXPECT_EQ(world_.Sessions(), 0U);
}

TEST_F(LeaseAloneTest, ANewControllerWaitsForTheLeaseOfWhoWasEvicted) {
  Evict(a_);
  Restart();
  world_.Pass(kLeaseMs - 100, {&b_});
  EXPECT_TRUE(Waits()) << "nobody knows what the other one held";
  world_.Pass(100, {&b_});
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(world_.Sessions(), 1U);
}

TEST_F(LeaseAloneTest, KeysThatNoLunKnowsAnyMoreAreWorthNothing) {
  world_.options_.reservations = true;
  world_.Restart();
  a_.Register();
  b_.Register();
  world_.hold_fences_ = true;
  Evict(a_);
  ASSERT_THAT(world_.fences_, SizeIs(1));
  world_.options_.reservations = false;
  Restart();
  world_.Pass(kLeaseMs - 100, {&b_});
  EXPECT_TRUE(Waits());
  world_.Pass(100, {&b_});
  EXPECT_TRUE(IsServed());
  EXPECT_THAT(world_.fences_, SizeIs(1));
}

TEST_F(LeaseAloneTest, GoodbyeWaitsForNothing) {
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  EXPECT_EQ(world_.Sessions(), 1U);
}

// LUNs without reservations that are no image files: what a host sent before it was killed, or cut
// off the LAN, may still be executed when its lease is over.
class KeylessTargetTest : public LeaseAloneTest {
 protected:
  KeylessTargetTest() : LeaseAloneTest(kQuarantineMs) {}
  int Leave(bool unfinished) {
    v1::Request goodbye;
    goodbye.mutable_goodbye()->set_unfinished(unfinished);
    return a_.Do(goodbye);
  }
  void IsServedAfter(std::uint64_t ms) {
    world_.Pass(ms - 200, {&b_});
    EXPECT_TRUE(Waits());
    world_.Pass(400, {&b_});
    EXPECT_TRUE(IsServed());
    EXPECT_EQ(world_.Sessions(), 1U);
  }

  static constexpr std::uint64_t kQuarantineMs = 30'000;
};

TEST_F(KeylessTargetTest, WhatAKilledHostSentIsWaitedFor) {
  Write();
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, WhatAnEvictedHostSentIsWaitedFor) {
  Write();
  Evict(a_);
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, ANewControllerWaitsForWhatAnEvictedHostSent) {
  Evict(a_);
  Restart();
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, ANewControllerWaitsForWhatAHostSentThatDiedWithTheLastOne) {
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  wanted_ = b_.Send(Client::GetAttrOf(1));
  world_.Run();
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, AClientThatRegistersAnewWaitsForWhatItHadSent) {
  Write();
  a_.Register();
  world_.Pass(kQuarantineMs - 200, {&a_, &b_});
  EXPECT_TRUE(Waits());
  EXPECT_EQ(world_.Sessions(), 3U);
  world_.Pass(400, {&a_, &b_});
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(world_.Sessions(), 2U);
}

TEST_F(KeylessTargetTest, GoodbyeWaitsForWhatIsNotFinished) {
  Write();
  EXPECT_EQ(Leave(/*unfinished=*/true), 0);
  IsServedAfter(kQuarantineMs);
}

TEST_F(KeylessTargetTest, GoodbyeAfterTheLastWriteWaitsForNothing) {
  Write();
  EXPECT_EQ(Leave(/*unfinished=*/false), 0);
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(world_.Sessions(), 1U);
}

}  // namespace
}  // namespace reel::mdc
