#include "client/luns/bandwidth_gate.h"

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "client/testing/test_clocks.h"
#include "client/testing/test_interrupt.h"
#include "gtest/gtest.h"
#include "proto/status.h"

namespace reel::client {
namespace {

constexpr LunSetId kSet{1, 0};
constexpr std::uint64_t kMB = 1'000'000;

// A gate by a clock that moves on when it is looked at, or stands still.
template <typename AnyClock>
struct GateBy {
  v1::Deal Deal(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& shares,
                std::uint64_t request_bytes = 0) {
    v1::Deal deal;
    deal.set_report_ms(200);
    deal.set_valid_ms(60'000);
    v1::Deal::Set& set = *deal.add_sets();
    set.set_pool(kSet.pool);
    set.set_stripe_set(kSet.stripe_set);
    set.set_request_bytes(request_bytes);
    for (const auto& [reservation, rate] : shares) {
      v1::Deal::Share& share = *set.add_shares();
      share.set_reservation(reservation);
      share.set_rate_bytes(rate);
    }
    return deal;
  }
  absl::Status Send(std::uint64_t bytes, BandwidthGate::Owner owner = {},
                    const Interrupt* interrupt = nullptr) {
    BandwidthGate::Pass pass;
    return gate.Enter({{kSet, 1, bytes}}, owner, interrupt, pass);
  }
  std::map<std::uint64_t, std::uint64_t> CostByReservation() {
    v1::Traffic report;
    EXPECT_TRUE(gate.Report([&](std::uint64_t) { return open; }, report));
    closed.assign(report.closed().begin(), report.closed().end());
    std::map<std::uint64_t, std::uint64_t> cost;
    for (const auto& share : report.shares()) cost[share.reservation()] = share.cost_bytes();
    return cost;
  }

  AnyClock clock;
  RecallWatch recalls{clock};
  BandwidthGate gate{clock, recalls};
  bool open = true;
  std::vector<std::uint64_t> closed;
};

TEST(BandwidthGate, IsOpenWhileNothingIsDealt) {
  GateBy<ManualClock> by;
  EXPECT_FALSE(by.gate.on());
  by.gate.Take(by.Deal({{0, kMB}}));
  EXPECT_TRUE(by.gate.on());
  by.gate.Take(v1::Deal());
  EXPECT_FALSE(by.gate.on());
  EXPECT_TRUE(by.Send(100 * kMB).ok());
}

TEST(BandwidthGate, RequestsTakeAsLongAsTheirShareSays) {
  GateBy<LookedAtClock> by;
  by.gate.Take(by.Deal({{0, kMB}}));
  const std::uint64_t began_ms = by.clock.NowMs();
  by.clock.GoOn(25);
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(by.Send(kMB / 10).ok());
  const std::uint64_t took_ms = by.clock.NowMs() - began_ms;
  EXPECT_GE(took_ms, 1000u);  // the first went at once
  EXPECT_LE(took_ms, 2500u);
}

TEST(BandwidthGate, ASmallRequestCostsMoreThanItsBytes) {
  GateBy<ManualClock> by;
  by.gate.Take(by.Deal({{0, kMB}}, /*request_bytes=*/50'000));
  EXPECT_TRUE(by.Send(4096).ok());
  EXPECT_EQ(by.CostByReservation()[0], 50'000u);
  by.clock.Advance(1000);
  EXPECT_TRUE(by.Send(70'000).ok());
  EXPECT_EQ(by.CostByReservation()[0], 70'000u);
}

TEST(BandwidthGate, AFilesReservationGoesBeforeItsTreesAndThatBeforeTheSessions) {
  GateBy<ManualClock> by;
  v1::Deal deal = by.Deal({{0, kMB}, {1, kMB}, {2, kMB}});
  v1::Deal::Reserved& file = *deal.add_reserved();
  file.set_reservation(1);
  file.set_inode(77);
  v1::Deal::Reserved& tree = *deal.add_reserved();
  tree.set_reservation(2);
  tree.set_tree(5);
  by.gate.Take(deal);
  EXPECT_TRUE(by.Send(10, {.inode = 77, .tree = 5}).ok());
  EXPECT_TRUE(by.Send(20, {.inode = 78, .tree = 5}).ok());
  EXPECT_TRUE(by.Send(40, {.inode = 78, .tree = 6}).ok());
  const std::map<std::uint64_t, std::uint64_t> expected{{0, 40}, {1, 10}, {2, 20}};
  EXPECT_EQ(by.CostByReservation(), expected);
}

TEST(BandwidthGate, AStreamIsToldAsClosedWhenNobodyHasItOpen) {
  GateBy<ManualClock> by;
  v1::Deal deal = by.Deal({{0, kMB}, {9, kMB}});
  v1::Deal::Reserved& stream = *deal.add_reserved();
  stream.set_reservation(9);
  stream.set_inode(77);
  stream.set_stream(true);
  by.gate.Take(deal);
  (void)by.CostByReservation();
  EXPECT_TRUE(by.closed.empty());
  by.open = false;
  (void)by.CostByReservation();
  EXPECT_EQ(by.closed, std::vector<std::uint64_t>{9});
}

// By a clock that stands still no turn ever comes: what ends the wait is what is tested.
class HeldRequest : public ::testing::Test {
 protected:
  void SetUp() override {
    by_.gate.Take(by_.Deal({{0, 1}}));
    ASSERT_TRUE(by_.Send(kMB).ok());  // the next one's turn is in 11 days
    thread_ = std::thread([this] { outcome_ = by_.Send(kMB, {.inode = 7}, &interrupt_); });
    interrupt_.AwaitAsked();
  }
  absl::Status Outcome() {
    thread_.join();
    return outcome_;
  }

  GateBy<ManualClock> by_;
  TestInterrupt interrupt_;
  absl::Status outcome_;
  std::thread thread_;
};

TEST_F(HeldRequest, GoesWhenItsFileIsRecalled) {
  by_.recalls.Begin(7);
  EXPECT_TRUE(Outcome().ok());
}

TEST_F(HeldRequest, IsGivenUpByItsCaller) {
  interrupt_.Raise();
  EXPECT_EQ(ErrnoOf(Outcome()), EINTR);
}

TEST_F(HeldRequest, GoesWhenNothingIsDealtAnyMore) {
  by_.gate.Drop();
  EXPECT_TRUE(Outcome().ok());
}

TEST_F(HeldRequest, GoesWhenTheMountEnds) {
  by_.gate.Stop();
  EXPECT_TRUE(Outcome().ok());
}

TEST_F(HeldRequest, GoesWhenTheDealCountsNoMore) {
  by_.clock.Advance(60'000);
  EXPECT_TRUE(Outcome().ok());
  v1::Traffic report;
  EXPECT_FALSE(by_.gate.Report([](std::uint64_t) { return true; }, report)) << "by no wait's end";
}

TEST_F(HeldRequest, GoesAfterAWhileInAnyCase) {
  by_.clock.Advance(BandwidthGate::kMostWaitMs);
  EXPECT_TRUE(Outcome().ok());
}

TEST_F(HeldRequest, GoesByANewDealAtOnce) {
  by_.gate.Take(by_.Deal({{0, 1000 * kMB}}));
  by_.clock.Advance(10);
  EXPECT_TRUE(Outcome().ok());
}

TEST(BandwidthGate, HeldAndBusyTimesAreTold) {
  GateBy<ManualClock> by;
  by.gate.Take(by.Deal({{0, kMB}}));
  {
    BandwidthGate::Pass pass;
    ASSERT_TRUE(by.gate.Enter({{kSet, 1, 10}}, {}, nullptr, pass).ok());
    by.clock.Advance(30);
  }
  by.clock.Advance(70);
  v1::Traffic report;
  ASSERT_TRUE(by.gate.Report([](std::uint64_t) { return true; }, report));
  EXPECT_EQ(report.over_ms(), 100u);
  EXPECT_EQ(report.shares(0).busy_ms(), 30u);
  EXPECT_EQ(report.shares(0).held_ms(), 0u);
}

}  // namespace
}  // namespace reel::client
