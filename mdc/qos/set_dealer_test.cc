#include "mdc/qos/set_dealer.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "mdc/qos/level_fill.h"

namespace reel::mdc {
namespace {

constexpr double kMB = 1e6;

TEST(LevelFill, SharesEvenly) {
  const std::vector<Demand> demands(4);
  for (const double got : LevelFill(100, demands).gets) EXPECT_NEAR(got, 25, 1e-6);
}

TEST(LevelFill, WhoWantsLessLeavesItToTheOthers) {
  const std::vector<Demand> demands{{.want = 10}, {}, {}};
  const Filling filling = LevelFill(100, demands);
  EXPECT_NEAR(filling.gets[0], 10, 1e-6);
  EXPECT_NEAR(filling.gets[1], 45, 1e-6);
  EXPECT_NEAR(filling.gets[2], 45, 1e-6);
  EXPECT_NEAR(filling.left, 0, 1e-6);
}

TEST(LevelFill, AFloorIsKeptAndCostsTheOthersNoMore) {
  const std::vector<Demand> demands{{.floor = 60}, {}, {.weight = 0.25}};
  const Filling filling = LevelFill(100, demands);
  EXPECT_NEAR(filling.gets[0], 60, 1e-6);
  EXPECT_NEAR(filling.gets[1], 32, 1e-6);
  EXPECT_NEAR(filling.gets[2], 8, 1e-6);
}

TEST(LevelFill, WhatNobodyWantsIsLeft) {
  const std::vector<Demand> demands{{.want = 10, .floor = 60}, {.want = 20}};
  const Filling filling = LevelFill(100, demands);
  EXPECT_NEAR(filling.gets[0], 10, 1e-6);
  EXPECT_NEAR(filling.gets[1], 20, 1e-6);
  EXPECT_NEAR(filling.left, 70, 1e-6);
}

// Clients that send to LUNs of a given speed, by the rates that they are dealt: in steps of 10 ms.
class Simulation : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kStepMs = 10, kReportMs = 200;
  struct Client {
    FlowKey key;
    std::uint64_t claim = 0;
    std::function<double(std::uint64_t now_ms)> wants;  // cost in a second
    double weight = 1;
    double true_price = 1;  // what the LUNs have to do for one byte of cost
    double depth = 1;       // how many requests it has under way, by those of others

    double bucket = 0, backlog = 0, queued = 0;  // queued: with the LUNs
    double done = 0;                             // since Measure
    FlowReport report{};
  };

  static double Greedy(std::uint64_t) { return 1e12; }

  Client& Add(std::uint64_t session, std::uint64_t claim,
              std::function<double(std::uint64_t)> wants) {
    clients_.push_back({.key = {SessionId(session), 0}, .claim = claim, .wants = std::move(wants)});
    return clients_.back();
  }

  void Step() {
    now_ms_ += kStepMs;
    const double seconds = kStepMs / 1000.0;
    for (Client& client : clients_) {
      const auto grant = dealer_.grants().find(client.key);
      const double rate = grant == dealer_.grants().end() ? 1e12 : grant->second.rate;
      const double burst = grant == dealer_.grants().end() ? 1e12 : grant->second.burst;
      client.bucket = std::min(client.bucket + rate * seconds, burst);
      client.backlog = std::min(client.backlog + client.wants(now_ms_) * seconds, 1e10);
      // At most so much is with the LUNs at a time: a program has a number of requests under way.
      const double room =
          std::max(0.0, client.depth * kDepthBytes / client.true_price - client.queued);
      const double sent = std::min({client.backlog, std::max(0.0, client.bucket), room});
      if (client.backlog > sent && sent < room) client.report.held_ms += kStepMs;
      client.bucket -= sent;
      client.backlog -= sent;
      client.queued += sent;
      if (client.queued > 0) client.report.busy_ms += kStepMs;
    }
    Serve(seconds);
    for (Client& client : clients_) client.report.over_ms += kStepMs;
    if (now_ms_ % kReportMs == 0) Round();
  }

  // The LUNs serve whoever has something there, in proportion to how much.
  void Serve(double seconds) {
    double all = 0;
    for (const Client& client : clients_) all += client.queued * client.true_price;
    const double share = all == 0 ? 0 : std::min(1.0, true_capacity_ * seconds / all);
    for (Client& client : clients_) {
      const double served = client.queued * share;
      client.queued -= served;
      if (client.queued < 1) client.queued = 0;
      client.done += served;
      client.report.cost_bytes += served;
    }
  }

  void Round() {
    std::vector<SetDealer::Member> members;
    for (Client& client : clients_) {
      dealer_.OnReport(client.key, client.report, now_ms_);
      client.report = {};
      members.push_back({client.key, client.claim, client.weight});
    }
    dealer_.Deal(capacity_, claims_, members, now_ms_);
  }

  void Run(std::uint64_t seconds) {
    for (std::uint64_t i = 0; i < seconds * 1000 / kStepMs; ++i) Step();
  }
  void Measure(std::uint64_t seconds) {
    for (Client& client : clients_) client.done = 0;
    Run(seconds);
    measured_ = static_cast<double>(seconds);
  }
  double RateOf(std::size_t client) const { return clients_[client].done / measured_; }

  static constexpr double kDepthBytes = 16 << 20;
  double capacity_ = 800 * kMB;
  double true_capacity_ = 800 * kMB;
  SetDealer::Claims claims_;
  std::vector<Client> clients_;
  SetDealer dealer_;
  std::uint64_t now_ms_ = 10'000;
  double measured_ = 1;
};

TEST_F(Simulation, AReserverHasItsRateBesideAGreedyOne) {
  claims_[1] = 400 * kMB;
  Add(1, 1, [](std::uint64_t) { return 400 * kMB; });
  Add(2, 0, Greedy);
  Run(3);
  Measure(60);
  EXPECT_NEAR(RateOf(0), 400 * kMB, 8 * kMB);
  EXPECT_GE(RateOf(1), 0.9 * 400 * kMB);
}

TEST_F(Simulation, AGreedyReserverHasItsRateAndNoMoreThanItsFairShare) {
  claims_[1] = 400 * kMB;
  Add(1, 1, Greedy);
  Add(2, 0, Greedy);
  Run(3);
  Measure(60);
  EXPECT_NEAR(RateOf(0), 400 * kMB, 8 * kMB);
  EXPECT_GE(RateOf(1), 0.9 * 400 * kMB);
}

TEST_F(Simulation, SmallRequestsThatCostMoreThanTheySayAreHeldBack) {
  for (const double price : {8.0, 64.0}) {
    clients_.clear();
    dealer_ = SetDealer();
    claims_[1] = 400 * kMB;
    Add(1, 1, [](std::uint64_t) { return 400 * kMB; });
    Client& greedy = Add(2, 0, Greedy);
    greedy.true_price = price;  // of LUNs of its own it could have so much less
    greedy.depth = 4;
    Run(15);
    Measure(60);
    EXPECT_NEAR(RateOf(0), 400 * kMB, 8 * kMB) << price;
    EXPECT_GE(RateOf(1), 0.8 * 400 * kMB / price) << price;
  }
}

TEST_F(Simulation, SmallRequestsAtTheirPriceTakeTheRest) {
  claims_[1] = 400 * kMB;
  Add(1, 1, [](std::uint64_t) { return 400 * kMB; });
  Add(2, 0, Greedy);  // in cost, of which the LUNs do as much as it says
  Run(3);
  Measure(60);
  EXPECT_NEAR(RateOf(0), 400 * kMB, 8 * kMB);
  EXPECT_GE(RateOf(1), 0.9 * 400 * kMB);
}

TEST_F(Simulation, LunsThatAreSlowerThanMeasuredStillGiveTheReserverItsRate) {
  true_capacity_ = 600 * kMB;
  claims_[1] = 400 * kMB;
  Add(1, 1, [](std::uint64_t) { return 400 * kMB; });
  Add(2, 0, Greedy);
  Run(10);
  Measure(60);
  EXPECT_NEAR(RateOf(0), 400 * kMB, 8 * kMB);
  EXPECT_GE(RateOf(1), 0.8 * 200 * kMB);
}

TEST_F(Simulation, WhatAReserverDoesNotUseIsLentAndComesBackWithinASecond) {
  claims_[1] = 400 * kMB;
  bool wants = false;
  Add(1, 1, [&](std::uint64_t) { return wants ? 400 * kMB : 0; });
  Add(2, 0, Greedy);
  Run(3);
  Measure(10);
  EXPECT_GE(RateOf(1), 0.9 * 800 * kMB);
  wants = true;
  Run(1);
  Measure(1);
  EXPECT_GE(RateOf(0), 392 * kMB);  // it may catch up, too
}

TEST_F(Simulation, AnIdleOneThatBeginsHasItsFairShareWithinTwoSeconds) {
  claims_[9] = 100 * kMB;  // nobody's who is here
  bool wants = false;
  Add(1, 0, [&](std::uint64_t now) { return wants ? Greedy(now) : 0; });
  Add(2, 0, Greedy);
  Add(3, 0, Greedy);
  Run(5);
  wants = true;
  Run(2);
  Measure(5);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(RateOf(i), 260 * kMB, 20 * kMB) << i;
}

TEST_F(Simulation, TheMoverStandsBack) {
  claims_[1] = 400 * kMB;
  Add(1, 1, [](std::uint64_t) { return 400 * kMB; });
  Add(2, 0, Greedy);
  Add(0, 0, Greedy).weight = SetDealer::kMoverWeight;
  Run(3);
  Measure(20);
  EXPECT_NEAR(RateOf(0), 400 * kMB, 8 * kMB);
  EXPECT_LT(RateOf(2), 0.3 * RateOf(1));
  EXPECT_GT(RateOf(2), 0.15 * RateOf(1));
}

TEST_F(Simulation, TwoSessionsShareOneReservation) {
  claims_[1] = 400 * kMB;
  Add(1, 1, Greedy);
  Add(2, 1, Greedy);
  for (std::uint64_t i = 3; i < 8; ++i) Add(i, 0, Greedy);
  Run(3);
  Measure(20);
  EXPECT_NEAR(RateOf(0) + RateOf(1), 400 * kMB, 12 * kMB);
  EXPECT_NEAR(RateOf(0), RateOf(1), 20 * kMB);
}

TEST_F(Simulation, AReserverThatCouldNeverReachItsRateDoesNotStopTheOthersForGood) {
  claims_[1] = 400 * kMB;
  Client& slow = Add(1, 1, Greedy);
  slow.true_price = 4;  // alone it would have 200 MB/s
  Add(2, 0, Greedy);
  Run(5);
  Measure(60);
  EXPECT_GE(RateOf(1), 0.3 * 400 * kMB);
}

TEST_F(Simulation, NobodysRateIsNothing) {
  claims_[1] = 720 * kMB;
  true_capacity_ = 300 * kMB;
  Add(1, 1, Greedy);
  Add(2, 0, Greedy);
  Run(20);
  for (const auto& [key, grant] : dealer_.grants()) EXPECT_GT(grant.rate, 0);
  Measure(5);
  EXPECT_GT(RateOf(1), 0);
}

}  // namespace
}  // namespace reel::mdc
