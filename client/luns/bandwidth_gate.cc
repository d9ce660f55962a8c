#include "client/luns/bandwidth_gate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace reel::client {
namespace {

constexpr std::uint64_t kLeastReportMs = 20;

}  // namespace

void BandwidthGate::Advance(Share& share, std::uint64_t now_ms) {
  if (now_ms <= share.at_ms) return;
  const std::uint64_t passed_ms = now_ms - share.at_ms;
  share.at_ms = now_ms;
  share.dealt += share.rate * static_cast<double>(passed_ms) / 1000;
  share.dealt = std::min(share.dealt, share.taken + share.burst);
  if (share.waiting > 0) share.held_ms += passed_ms;
  if (share.busy > 0) share.busy_ms += passed_ms;
}

BandwidthGate::Share* BandwidthGate::Find(const ShareKey& key) {
  const auto share = shares_.find(key);
  return share == shares_.end() ? nullptr : &share->second;
}

std::uint64_t BandwidthGate::ReservationOf(const Owner& owner) const {
  const auto of_file = by_inode_.find(owner.inode);
  if (of_file != by_inode_.end()) return of_file->second;
  const auto of_tree = by_tree_.find(owner.tree);
  return of_tree == by_tree_.end() ? 0 : of_tree->second;
}

std::uint64_t BandwidthGate::LeftMs(const Turn& turn, std::uint64_t now_ms) {
  Share* const share = Find(turn.share);
  if (share == nullptr) return 0;
  Advance(*share, now_ms);
  if (share->dealt >= turn.at) return 0;
  return static_cast<std::uint64_t>(std::ceil((turn.at - share->dealt) * 1000 / share->rate));
}

void BandwidthGate::Forgive(const Turn& turn) {
  if (Share* const share = Find(turn.share)) share->dealt += static_cast<double>(turn.cost);
}

absl::Status BandwidthGate::Enter(const Loads& loads, const Owner& owner,
                                  const Interrupt* interrupt, Pass& pass) {
  const std::uint64_t began_ms = clock_.NowMs();
  absl::InlinedVector<Turn, 2> turns;
  MutexLock lock(mutex_);
  const std::uint64_t reservation = ReservationOf(owner);
  for (const Load& load : loads) {
    ShareKey key{load.set, reservation};
    Share* share = Find(key);
    if (share == nullptr && reservation != 0) {
      key.reservation = 0;  // it is of other sets
      share = Find(key);
    }
    if (share == nullptr) continue;
    Advance(*share, began_ms);
    const std::uint64_t cost = std::max(load.bytes, load.requests * request_bytes_[load.set]);
    turns.push_back({key, share->taken, cost, load.requests});
    share->taken += static_cast<double>(cost);
    ++share->waiting;
  }
  const absl::Status status = AwaitTurns(turns, owner, interrupt, began_ms);
  const std::uint64_t now_ms = clock_.NowMs();
  for (const Turn& turn : turns) {
    Share* const share = Find(turn.share);
    if (share == nullptr) continue;
    Advance(*share, now_ms);
    if (share->waiting > 0) --share->waiting;
    if (!status.ok()) {
      Forgive(turn);
      continue;
    }
    share->cost += turn.cost;
    share->requests += turn.requests;
    ++share->busy;
    pass.shares_.push_back(turn.share);
  }
  if (status.ok()) pass.gate_ = this;
  return status;
}

absl::Status BandwidthGate::AwaitTurns(std::span<const Turn> turns, const Owner& owner,
                                       const Interrupt* interrupt, std::uint64_t began_ms) {
  for (;;) {
    const std::uint64_t now_ms = clock_.NowMs();
    std::uint64_t left_ms = 0;
    for (const Turn& turn : turns) left_ms = std::max(left_ms, LeftMs(turn, now_ms));
    if (left_ms == 0 || !Counts(now_ms)) return absl::OkStatus();
    if (owner.inode != 0 && recalls_.Has(owner.inode)) return absl::OkStatus();
    if (now_ms - began_ms >= kMostWaitMs) {
      for (const Turn& turn : turns) Forgive(turn);
      return absl::OkStatus();
    }
    absl::Status goes_on = CheckInterrupt(interrupt, "its share of the LUNs' bandwidth");
    if (!goes_on.ok()) return goes_on;
    const auto poll_ms = static_cast<std::uint64_t>(kPoll.count());
    changed_.WaitFor(mutex_, std::chrono::milliseconds(std::min(left_ms, poll_ms)));
  }
}

void BandwidthGate::Leave(const absl::InlinedVector<ShareKey, 2>& shares) {
  const std::uint64_t now_ms = clock_.NowMs();
  MutexLock lock(mutex_);
  for (const ShareKey& key : shares) {
    Share* const share = Find(key);
    if (share == nullptr) continue;
    Advance(*share, now_ms);
    if (share->busy > 0) --share->busy;
  }
}

void BandwidthGate::Take(const v1::Deal& deal) {
  const std::uint64_t now_ms = clock_.NowMs();
  MutexLock lock(mutex_);
  std::map<ShareKey, Share> shares;
  request_bytes_.clear();
  for (const v1::Deal::Set& set : deal.sets()) {
    const LunSetId id{set.pool(), set.stripe_set()};
    request_bytes_[id] = set.request_bytes();
    for (const v1::Deal::Share& dealt : set.shares()) {
      const ShareKey key{id, dealt.reservation()};
      Share& share = shares[key];
      if (Share* const known = Find(key)) {
        Advance(*known, now_ms);
        share = *known;
      } else {
        share.at_ms = now_ms;
      }
      share.rate = static_cast<double>(std::max<std::uint64_t>(dealt.rate_bytes(), 1));
      share.burst = static_cast<double>(dealt.burst_bytes());
    }
  }
  shares_ = std::move(shares);
  by_inode_.clear();
  by_tree_.clear();
  streams_.clear();
  for (const v1::Deal::Reserved& reserved : deal.reserved()) {
    if (reserved.inode() != 0) {
      // What a program has asked for its stream goes before what the file has from elsewhere.
      if (reserved.stream()) by_inode_[reserved.inode()] = reserved.reservation();
      by_inode_.try_emplace(reserved.inode(), reserved.reservation());
    }
    if (reserved.tree() != 0) by_tree_.try_emplace(reserved.tree(), reserved.reservation());
    if (reserved.stream()) streams_.push_back({reserved.reservation(), reserved.inode()});
  }
  until_ms_ = now_ms + deal.valid_ms();
  report_ms_ = shares_.empty() ? 0 : std::max<std::uint64_t>(deal.report_ms(), kLeastReportMs);
  if (!on_) reported_ms_ = now_ms;
  on_ = !shares_.empty();
  changed_.NotifyAll();
}

void BandwidthGate::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  on_ = false;
  changed_.NotifyAll();
}

std::uint64_t BandwidthGate::report_ms() const {
  MutexLock lock(mutex_);
  return report_ms_;
}

bool BandwidthGate::Report(const std::function<bool(std::uint64_t inode)>& is_open,
                           v1::Traffic& report) {
  const std::uint64_t now_ms = clock_.NowMs();
  std::vector<Reserved> streams;
  {
    MutexLock lock(mutex_);
    if (!Counts(now_ms)) {
      on_ = false;
      return false;
    }
    report.set_over_ms(static_cast<std::uint32_t>(now_ms - reported_ms_));
    reported_ms_ = now_ms;
    for (auto& [key, share] : shares_) {
      Advance(share, now_ms);
      v1::Traffic::Share& out = *report.add_shares();
      out.set_pool(key.set.pool);
      out.set_stripe_set(key.set.stripe_set);
      out.set_reservation(key.reservation);
      out.set_cost_bytes(std::exchange(share.cost, 0));
      out.set_requests(std::exchange(share.requests, 0));
      out.set_held_ms(static_cast<std::uint32_t>(std::exchange(share.held_ms, 0)));
      out.set_busy_ms(static_cast<std::uint32_t>(std::exchange(share.busy_ms, 0)));
    }
    streams = streams_;
  }
  for (const Reserved& stream : streams) {
    if (!is_open(stream.inode)) report.add_closed(stream.reservation);
  }
  return true;
}

}  // namespace reel::client
