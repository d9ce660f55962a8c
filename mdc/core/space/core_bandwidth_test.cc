// Guaranteed bandwidth: who is told of it, what is kept of it, and when a stream's ends.
#include <cerrno>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "mdc/qos/bandwidth_desk.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreBandwidthTest : public testing::Test {
 protected:
  CoreBandwidthTest() {
    a_.features_ = v1::FEATURE_BANDWIDTH;
    a_.Register();
    old_.Register();
  }
  absl::Status Set(const v1::SetBandwidthRequest& request) {
    v1::SetBandwidthReply reply;
    std::optional<absl::Status> outcome;
    harness_.core_->SetBandwidth(request, reply, [&](const absl::Status& s) { outcome = s; });
    harness_.Run();
    EXPECT_TRUE(outcome.has_value());
    return outcome.value_or(absl::UnknownError("not answered"));
  }
  absl::Status Capacity(std::uint64_t mib) {
    v1::SetBandwidthRequest request;
    request.mutable_capacity()->set_pool("data");
    request.mutable_capacity()->set_rate_bytes(mib << 20);
    return Set(request);
  }
  absl::Status Reserve(const std::string& client, std::uint64_t mib) {
    v1::SetBandwidthRequest request;
    request.mutable_reserve()->set_kind(v1::RESERVATION_CLIENT);
    request.mutable_reserve()->set_name(client);
    request.mutable_reserve()->set_rate_bytes(mib << 20);
    return Set(request);
  }
  absl::Status Release(std::uint64_t reservation) {
    v1::SetBandwidthRequest request;
    request.mutable_release()->set_reservation(reservation);
    return Set(request);
  }
  v1::BandwidthReply Shown() const {
    v1::BandwidthReply reply;
    harness_.core_->Describe(reply);
    return reply;
  }
  void Round() {
    harness_.clock_.now_ms += BandwidthDesk::kRoundMs;
    harness_.Tick();
  }
  int SetRate(Client& client, std::uint64_t inode, const std::string& rate) {
    v1::Request request;
    request.mutable_set_xattr()->set_inode(inode);
    request.mutable_set_xattr()->set_name("reelfs.rate");
    request.mutable_set_xattr()->set_value(rate);
    return client.Do(request, true);
  }
  static v1::Request Closed(std::uint64_t reservation) {
    v1::Request request;
    request.mutable_traffic()->set_over_ms(200);
    request.mutable_traffic()->add_closed(reservation);
    return request;
  }

  const std::vector<v1::Deal>& Deals() { return harness_.deals_[&a_]; }

  CoreHarness harness_;
  Client a_{harness_, 1};
  Client old_{harness_, 2};  // of an earlier release
};

TEST_F(CoreBandwidthTest, NobodyIsToldAnythingBeforeSomethingIsReserved) {
  ASSERT_TRUE(Capacity(1000).ok());
  Round();
  EXPECT_TRUE(Deals().empty());
  EXPECT_TRUE(Shown().shares().empty());
}

TEST_F(CoreBandwidthTest, AReserverIsDealtItsRateAndAnEarlierReleaseIsNamed) {
  ASSERT_TRUE(Capacity(1000).ok());
  ASSERT_TRUE(Reserve("host1", 500).ok());
  Round();
  ASSERT_EQ(Deals().size(), 1u);
  EXPECT_GE(Deals()[0].sets(0).shares(0).rate_bytes(), (500u << 20) - 1);
  EXPECT_TRUE(harness_.deals_[&old_].empty());
  ASSERT_EQ(Shown().unpaced_size(), 1);
  EXPECT_EQ(Shown().unpaced(0), "host2");
  ASSERT_TRUE(Release(1).ok());
  Round();
  ASSERT_EQ(Deals().size(), 2u);
  EXPECT_TRUE(Deals()[1].sets().empty());
}

TEST_F(CoreBandwidthTest, ReservationsOutliveTheController) {
  ASSERT_TRUE(Capacity(1000).ok());
  ASSERT_TRUE(Reserve("host1", 500).ok());
  harness_.Restart();
  EXPECT_EQ(Shown().reservations(0).record().name(), "host1");
  EXPECT_EQ(Shown().sets(0).rate_bytes(), 1000u << 20);
  EXPECT_TRUE(absl::IsFailedPrecondition(Reserve("host3", 500)));
  ASSERT_EQ(a_.Resume(), 0);
  Round();
  EXPECT_TRUE(Deals().empty()) << "it was dealt before it had reclaimed";
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(old_.Resume(), 0);
  ASSERT_EQ(old_.Reclaim(), 0);
  Round();
  EXPECT_EQ(Deals().size(), 1u);
}

TEST_F(CoreBandwidthTest, AStreamsRateEndsWhenItsClientSaysThatItIsClosed) {
  const std::uint64_t inode = a_.Create("f", true);
  EXPECT_EQ(SetRate(a_, inode, "100M"), EBUSY) << "nobody has measured the LUNs";
  ASSERT_TRUE(Capacity(1000).ok());
  EXPECT_EQ(SetRate(a_, inode, "soon"), EINVAL);
  ASSERT_EQ(SetRate(a_, inode, "24x10M"), 0);
  EXPECT_EQ(SetRate(old_, inode, "700M"), EBUSY);
  EXPECT_EQ(Shown().sets(0).reserved_bytes(), 240u << 20);
  Round();
  ASSERT_EQ(Deals().size(), 1u);
  ASSERT_EQ(Deals()[0].reserved_size(), 1);
  EXPECT_TRUE(Deals()[0].reserved(0).stream());
  const std::uint64_t reservation = Deals()[0].reserved(0).reservation();
  EXPECT_EQ(old_.Do(Closed(reservation)), 0);
  EXPECT_EQ(Shown().reservations_size(), 1) << "another session ended it";
  EXPECT_EQ(a_.Do(Closed(reservation)), 0);
  EXPECT_TRUE(Shown().reservations().empty());
}

TEST_F(CoreBandwidthTest, AStreamsRateEndsWithItsSessionAlsoAfterAFailover) {
  ASSERT_TRUE(Capacity(1000).ok());
  const std::uint64_t inode = a_.Create("f", true);
  ASSERT_EQ(SetRate(a_, inode, "100M"), 0);
  harness_.Restart();
  EXPECT_EQ(Shown().reservations_size(), 1);
  ASSERT_EQ(old_.Resume(), 0);
  ASSERT_EQ(old_.Reclaim(), 0);
  harness_.Pass(40'000, {&old_});  // a's lease is over
  EXPECT_TRUE(Shown().reservations().empty());
  harness_.Restart();
  EXPECT_TRUE(Shown().reservations().empty());
}

TEST_F(CoreBandwidthTest, WhatHasNoEndInATrafficIsRefused) {
  v1::Request request;
  for (int i = 0; i <= BandwidthDesk::kMostShares; ++i) request.mutable_traffic()->add_shares();
  EXPECT_EQ(a_.Do(request), EINVAL);
}

TEST_F(CoreBandwidthTest, NothingIsReservedForWhatIsNotThere) {
  ASSERT_TRUE(Capacity(1000).ok());
  EXPECT_TRUE(absl::IsNotFound(Release(7)));
  v1::SetBandwidthRequest request;
  EXPECT_TRUE(absl::IsInvalidArgument(Set(request)));
  request.mutable_reserve()->set_kind(v1::RESERVATION_TREE);
  request.mutable_reserve()->set_name("none");
  request.mutable_reserve()->set_rate_bytes(1 << 20);
  EXPECT_TRUE(absl::IsNotFound(Set(request)));
  request.mutable_reserve()->set_kind(v1::RESERVATION_FILE);
  request.mutable_reserve()->set_inode(999);
  EXPECT_TRUE(absl::IsNotFound(Set(request)));
  request.mutable_reserve()->set_kind(v1::RESERVATION_STREAM);
  EXPECT_TRUE(absl::IsInvalidArgument(Set(request)));
}

}  // namespace
}  // namespace reel::mdc
