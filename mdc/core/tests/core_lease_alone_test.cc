// How sessions end where no LUN can cut them off: by the lease, and by what may still be executed.
#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::SizeIs;

class LeaseAloneTest : public testing::Test {
 protected:
  LeaseAloneTest() : LeaseAloneTest(/*keyless_quarantine_ms=*/0) {}
  explicit LeaseAloneTest(std::uint64_t keyless_quarantine_ms) {
    harness_.options_.keyless_quarantine_ms = keyless_quarantine_ms;
    harness_.Restart();
    a_.Register();
    b_.Register();
  }
  // a_ writes a file; b_ wants to read it.
  void Write() {
    const std::uint64_t file = a_.Create("file");
    ASSERT_EQ(a_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
    wanted_ = b_.Send(Client::LayoutOf(file, v1::TOKEN_SHARED));
    harness_.Run();
  }
  void Evict(const Client& client) {
    ASSERT_TRUE(harness_.core_->EvictSession(SessionId(client.session_), "a test").ok());
    harness_.Run();
  }
  // b_ goes on in the next epoch.
  void Restart() {
    harness_.Restart();
    EXPECT_EQ(a_.Resume(), ESTALE);
    ASSERT_EQ(b_.Resume(), 0);
    ASSERT_EQ(b_.Reclaim(), 0);
    wanted_ = b_.Send(Client::GetAttrOf(1));
    harness_.Run();
  }
  bool Waits() const { return !b_.Answered(wanted_); }
  bool IsServed() const { return b_.Answered(wanted_) && b_.Answer(wanted_).error() == 0; }

  static constexpr std::uint64_t kLeaseMs = 10'000;
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
  std::uint64_t wanted_ = 0;
};

TEST_F(LeaseAloneTest, AnEvictedSessionsHoldingsWaitForItsLease) {
  Write();
  harness_.Pass(3'000, {&b_});
  Evict(a_);
  EXPECT_TRUE(a_.evicted_);
  harness_.Pass(kLeaseMs - 3'100, {&a_, &b_});  // what it still sends does not make it longer
  EXPECT_TRUE(Waits());
  harness_.Pass(100, {&b_});
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(harness_.Sessions(), 1U);
}

TEST_F(LeaseAloneTest, TheLastEvictedSessionEndsInSilence) {
  harness_.Pass(kLeaseMs);
  Evict(a_);
  Evict(b_);
  harness_.Pass(kLeaseMs);
  EXPECT_EQ(harness_.Sessions(), 0U);
}

TEST_F(LeaseAloneTest, ANewControllerWaitsForAnEvictedSessionsLease) {
  Evict(a_);
  Restart();
  harness_.Pass(kLeaseMs - 100, {&b_});
  EXPECT_TRUE(Waits()) << "nobody knows what the other one held";
  harness_.Pass(100, {&b_});
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(harness_.Sessions(), 1U);
}

TEST_F(LeaseAloneTest, KeysThatNoLunKnowsProtectNothing) {
  harness_.options_.reservations = true;
  harness_.Restart();
  a_.Register();
  b_.Register();
  harness_.hold_fences_ = true;
  Evict(a_);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  harness_.options_.reservations = false;
  Restart();
  harness_.Pass(kLeaseMs - 100, {&b_});
  EXPECT_TRUE(Waits());
  harness_.Pass(100, {&b_});
  EXPECT_TRUE(IsServed());
  EXPECT_THAT(harness_.fences_, SizeIs(1));
}

TEST_F(LeaseAloneTest, GoodbyeWaitsForNothing) {
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  EXPECT_EQ(harness_.Sessions(), 1U);
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
    harness_.Pass(ms - 200, {&b_});
    EXPECT_TRUE(Waits());
    harness_.Pass(400, {&b_});
    EXPECT_TRUE(IsServed());
    EXPECT_EQ(harness_.Sessions(), 1U);
  }

  static constexpr std::uint64_t kQuarantineMs = 30'000;
};

TEST_F(KeylessTargetTest, WritesOfAKilledHostAreWaitedOut) {
  Write();
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, WritesOfAnEvictedHostAreWaitedOut) {
  Write();
  Evict(a_);
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, ANewControllerWaitsOutAnEvictedHostsWrites) {
  Evict(a_);
  Restart();
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, ANewControllerWaitsOutTheWritesOfAHostThatDiedWithTheLastOne) {
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  wanted_ = b_.Send(Client::GetAttrOf(1));
  harness_.Run();
  IsServedAfter(kLeaseMs + kQuarantineMs);
}

TEST_F(KeylessTargetTest, AClientThatRegistersAnewWaitsOutItsOldWrites) {
  Write();
  a_.Register();
  harness_.Pass(kQuarantineMs - 200, {&a_, &b_});
  EXPECT_TRUE(Waits());
  EXPECT_EQ(harness_.Sessions(), 3U);
  harness_.Pass(400, {&a_, &b_});
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(harness_.Sessions(), 2U);
}

TEST_F(KeylessTargetTest, GoodbyeWaitsForUnfinishedWrites) {
  Write();
  EXPECT_EQ(Leave(/*unfinished=*/true), 0);
  IsServedAfter(kQuarantineMs);
}

TEST_F(KeylessTargetTest, GoodbyeAfterTheLastWriteWaitsForNothing) {
  Write();
  EXPECT_EQ(Leave(/*unfinished=*/false), 0);
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(harness_.Sessions(), 1U);
}

}  // namespace
}  // namespace reel::mdc
