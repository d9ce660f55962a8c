// The lease that a client was granted rules until its session is over: also under a controller of
// another configuration.
#include "mdc/metadb/schema.h"
#include "mdc/testing/core_harness.h"
#include "proto/records.pb.h"

namespace reel::mdc {
namespace {

class CoreLeaseTest : public testing::Test {
 protected:
  CoreLeaseTest() {
    a_.Register();
    b_.Register();
    file_ = a_.Create("file");
    EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
  }
  void RestartWith(std::uint32_t lease_ms) {
    harness_.options_.session_lease_ms = lease_ms;
    harness_.Restart();
  }
  void ComeBack(Client& client) {
    ASSERT_EQ(client.Resume(), 0);
    ASSERT_EQ(client.Reclaim(), 0);
  }
  // The writer is silent; whether b gets its file within that time.
  bool BReadsWithin(std::uint64_t ms) {
    const std::uint64_t wanted = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
    harness_.Pass(ms, {&b_});
    return b_.Answered(wanted) && b_.Answer(wanted).error() == 0;
  }
  std::uint32_t RecordedMs(const Client& client) {
    std::string bytes;
    v1::SessionRecord record;
    EXPECT_TRUE(
        harness_.db().Get(schema::SessionKey(SessionId(client.session_)), &bytes, Tier::kAll).ok());
    EXPECT_TRUE(record.ParseFromString(bytes));
    return record.lease_ms();
  }

  static constexpr std::uint32_t kLongMs = 10'000, kShortMs = 1'000;
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
  std::uint64_t file_ = 0;
};

TEST_F(CoreLeaseTest, AShorterConfigurationEndsNoLeaseEarlier) {
  RestartWith(kShortMs);
  ComeBack(b_);
  EXPECT_FALSE(BReadsWithin(kLongMs - 200)) << "a may still be writing";
  EXPECT_FALSE(a_.evicted_);
  harness_.Pass(400, {&b_});
  EXPECT_EQ(harness_.Sessions(), 1u);
}

TEST_F(CoreLeaseTest, AResumedSessionKeepsItsLease) {
  RestartWith(kShortMs);
  ComeBack(a_);
  ComeBack(b_);
  EXPECT_EQ(a_.told_.lease_ms(), kLongMs);
  harness_.Pass(kLongMs - 400, {&b_});
  EXPECT_FALSE(a_.evicted_);
  harness_.Pass(600, {&b_});
  EXPECT_TRUE(a_.evicted_);
}

TEST_F(CoreLeaseTest, ANewSessionGetsTheConfiguredLease) {
  RestartWith(kShortMs);
  ComeBack(a_);
  ComeBack(b_);
  c_.Register();
  EXPECT_EQ(c_.told_.lease_ms(), kShortMs);
  EXPECT_EQ(RecordedMs(c_), kShortMs);
  harness_.Pass(kShortMs + 200, {&a_, &b_});
  EXPECT_TRUE(c_.evicted_);
}

// Nobody is heard more often than every third of the longest lease.
TEST_F(CoreLeaseTest, RenewalsOfALongLeaseLetAShorterOneRunOut) {
  RestartWith(kShortMs);
  ComeBack(a_);
  ComeBack(b_);
  c_.Register();
  for (int i = 0; i < 3; ++i) {
    harness_.Pass(kLongMs / 3);
    harness_.Pass(100, {&a_, &b_});
  }
  EXPECT_TRUE(c_.evicted_);
  EXPECT_FALSE(a_.evicted_);
}

TEST_F(CoreLeaseTest, ALongerLeaseIsDurableBeforeItIsGranted) {
  RestartWith(2 * kLongMs);
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.told_.lease_ms(), 2 * kLongMs);
  EXPECT_EQ(RecordedMs(a_), 2 * kLongMs);
  RestartWith(kShortMs);
  ComeBack(b_);
  EXPECT_FALSE(BReadsWithin(2 * kLongMs - 200));
}

TEST_F(CoreLeaseTest, AnEvictionHalfDoneWaitsForTheLongerLease) {
  ASSERT_TRUE(harness_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  harness_.Run();
  RestartWith(kShortMs);
  ComeBack(b_);
  EXPECT_FALSE(BReadsWithin(kLongMs - 200)) << "it may not have heard of that";
  harness_.Pass(400, {&b_});
  EXPECT_EQ(harness_.Sessions(), 1u);
}

TEST_F(CoreLeaseTest, ARecordWithoutALeaseHasTheConfiguredOne) {
  v1::SessionRecord record;
  record.set_client(a_.uuid_.ToBytes());
  WriteBatch batch;
  batch.Put(schema::SessionKey(SessionId(a_.session_)), record.SerializeAsString());
  ASSERT_TRUE(harness_.db().Apply(batch).ok());
  RestartWith(2 * kShortMs);
  EXPECT_EQ(RecordedMs(a_), 2 * kShortMs);
  ComeBack(b_);
  harness_.Pass(2 * kShortMs + 200, {&b_});
  EXPECT_EQ(harness_.Sessions(), 1u);
}

}  // namespace
}  // namespace reel::mdc
