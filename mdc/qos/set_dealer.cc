#include "mdc/qos/set_dealer.h"

#include <algorithm>

#include "mdc/qos/level_fill.h"

namespace reel::mdc {
namespace {

constexpr double kUsable = 0.98;      // of the capacity: a queue at the LUNs runs empty by that
constexpr double kStartShare = 0.02;  // of the capacity: what a flow may begin with
constexpr double kLeastStart = 1 << 20;
constexpr double kGrowth = 1.1;    // a flow that is not held may want so much more next
constexpr double kHeldGrowth = 2;  // … and one that is
constexpr double kHeld = 0.05;     // of the time: from there on it is
constexpr double kBusy = 0.9;      // of the time: from there on requests are always there
constexpr double kSlow = 0.985;    // of its rate: below that a reserver is slower
constexpr double kCut = 0.85;
constexpr double kLeastPressure = 0.001;  // small requests may be so much dearer than they say
// From round to round: slowly near where the last cut was, quickly elsewhere.
constexpr double kRelief = 1.08, kSlowRelief = 1.015;
constexpr double kNearFrom = 0.92, kNearTo = 1.1;
constexpr std::uint32_t kLastingRounds = 3;  // a deficit of less is a hiccup
constexpr std::uint64_t kSettleMs = 400;     // from a cut to when it shows
constexpr std::uint32_t kMostVainCuts = 12;
constexpr double kHelps = 1.05;
constexpr std::uint64_t kLetBeMs = 20'000;
constexpr std::uint64_t kSilentMs = 2'000;  // who says nothing for so long sends nothing
constexpr double kSlowWeight = 0.25;        // of a report, among those of about a second
constexpr double kBurstSeconds = 0.1, kReservedBurstSeconds = 0.5;

double ShareOf(std::uint32_t part_ms, std::uint32_t whole_ms) {
  return whole_ms == 0 ? 0 : std::min(1.0, static_cast<double>(part_ms) / whole_ms);
}

}  // namespace

void SetDealer::OnReport(const FlowKey& key, const FlowReport& report, std::uint64_t now_ms) {
  const auto found = flows_.find(key);
  if (found == flows_.end() || report.over_ms == 0) return;
  Flow& flow = found->second;
  flow.used = report.cost_bytes * 1000 / report.over_ms;
  flow.used_slow =
      flow.used_slow == 0 ? flow.used : flow.used_slow + kSlowWeight * (flow.used - flow.used_slow);
  flow.held = ShareOf(report.held_ms, report.over_ms);
  flow.busy = ShareOf(report.busy_ms, report.over_ms);
  flow.reported_ms = now_ms;
}

void SetDealer::Forget(const std::vector<Member>& members, std::uint64_t now_ms) {
  std::map<FlowKey, Flow> kept;
  for (const Member& member : members) {
    Flow flow = flows_[member.key];
    flow.claim = member.claim;
    if (now_ms - flow.reported_ms > kSilentMs)
      flow.used = flow.used_slow = flow.held = flow.busy = 0;
    kept[member.key] = flow;
  }
  flows_ = std::move(kept);
}

double SetDealer::WantOf(const Flow& flow, double start) const {
  if (flow.held >= kHeld) return kHeldGrowth * std::max(flow.used, start);
  return kGrowth * flow.used + start;
}

void SetDealer::SetFloors(const Claims& claims, double start) {
  for (auto& [key, flow] : flows_) flow.floor = 0;
  for (const auto& [id, rate] : claims) {
    std::vector<Flow*> of_claim;
    std::vector<Demand> demands;
    for (auto& [key, flow] : flows_) {
      if (flow.claim != id) continue;
      of_claim.push_back(&flow);
      demands.push_back({.want = WantOf(flow, start)});
    }
    const Filling filling = LevelFill(rate, demands);
    for (std::size_t i = 0; i < of_claim.size(); ++i) {
      of_claim[i]->floor = filling.gets[i] + filling.left / static_cast<double>(of_claim.size());
    }
  }
}

SetDealer::Reservers SetDealer::LookAtReservers(const Claims& claims) const {
  Reservers found;
  for (const auto& [id, reserved] : claims) {
    double used = 0;
    bool pressed = false;
    for (const auto& [key, flow] : flows_) {
      if (flow.claim != id) continue;
      used += flow.used_slow;
      pressed = pressed || (flow.busy >= kBusy && flow.held < kHeld);
    }
    if (!pressed || used >= reserved) continue;
    found.standing =
        std::max(found.standing, used < kSlow * reserved ? Standing::kSlow : Standing::kTight);
    found.rate += used;
  }
  return found;
}

void SetDealer::Press(const Reservers& reservers, double others_used, double rest,
                      std::uint64_t now_ms) {
  if (reservers.standing == Standing::kTight) return;
  if (reservers.standing == Standing::kWell) {
    vain_cuts_ = 0;
    slow_rounds_ = 0;
    const bool near = pressure_ >= kNearFrom * cut_at_ && pressure_ <= kNearTo * cut_at_;
    pressure_ = std::min(1.0, pressure_ * (near ? kSlowRelief : kRelief));
    return;
  }
  ++slow_rounds_;
  if (pressure_ >= 1 && slow_rounds_ < kLastingRounds) return;
  if (now_ms < let_be_until_ms_ || now_ms - cut_ms_ < kSettleMs) return;
  if (vain_cuts_ == 0 || reservers.rate > kHelps * rate_when_cut_) {
    rate_when_cut_ = reservers.rate;
    vain_cuts_ = 0;
  }
  if (++vain_cuts_ > kMostVainCuts) {
    let_be_until_ms_ = now_ms + kLetBeMs;
    vain_cuts_ = 0;
    pressure_ = 1;
    return;
  }
  cut_ms_ = now_ms;
  if (rest > 0) pressure_ = std::min(pressure_, others_used / rest);
  cut_at_ = pressure_;
  pressure_ = std::max(kLeastPressure, pressure_ * kCut);
}

void SetDealer::Deal(double capacity, const Claims& claims, const std::vector<Member>& members,
                     std::uint64_t now_ms) {
  Forget(members, now_ms);
  const double start = std::max(kStartShare * capacity, kLeastStart);
  SetFloors(claims, start);

  std::vector<Demand> demands;
  double reserved = 0;  // and wanted
  double others_used = 0;
  for (const Member& member : members) {
    const Flow& flow = flows_[member.key];
    demands.push_back({.want = WantOf(flow, start), .floor = flow.floor, .weight = member.weight});
    reserved += std::min(demands.back().want, flow.floor);
    others_used += std::max(0.0, flow.used - flow.floor);
  }
  const double rest = std::max(kUsable * capacity - reserved, kStartShare * capacity);
  Press(LookAtReservers(claims), others_used, rest, now_ms);

  const Filling filling = LevelFill(reserved + rest * pressure_, demands);
  const double spread = members.empty() ? 0 : filling.left / static_cast<double>(members.size());
  grants_.clear();
  for (std::size_t i = 0; i < members.size(); ++i) {
    Flow& flow = flows_[members[i].key];
    const double least = std::max(flow.floor, start * pressure_ * members[i].weight);
    flow.rate = std::max(filling.gets[i] + spread, least);
    const double seconds = flow.floor > 0 ? kReservedBurstSeconds : kBurstSeconds;
    grants_[members[i].key] = {.rate = flow.rate,
                               .burst = std::max(flow.rate * seconds, kLeastStart),
                               .used = flow.used_slow,
                               .held = flow.held >= kHeld};
  }
}

double SetDealer::used() const {
  double used = 0;
  for (const auto& [key, flow] : flows_) used += flow.used_slow;
  return used;
}

}  // namespace reel::mdc
