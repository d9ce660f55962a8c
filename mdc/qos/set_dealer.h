// Deals out the bandwidth of one LUN set: a state machine of what flows say that they send.
//
// A *flow* is what one session sends by one share: of a reservation, or of its own. Each round
// gives every flow a rate (docs/internals/bandwidth.md has the argument):
//   1. A flow with a reservation may always send at that rate at least, whatever it did before.
//   2. The others share what is left fairly (mdc/qos/level_fill.h), what reservers do not use too.
//   3. Is a reserver slower than its rate although it has requests with the LUNs all the time, the
//      set carries less than it was measured: the others are cut below what they send now, until it
//      is not; then they get it back by and by. Where that does not help, they are let be for a
//      while.
//   4. Nobody's rate is 0.
// Rates are of cost: bytes, but so many at least for each request. Threads: the core thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "volume/base/types.h"

namespace reel::mdc {

struct FlowKey {
  SessionId session;              // 0: the controller's own mover
  std::uint64_t reservation = 0;  // whose share it is; 0: the session's own
  friend auto operator<=>(const FlowKey&, const FlowKey&) = default;
};

// What a client says of one flow.
struct FlowReport {
  double cost_bytes = 0;
  std::uint32_t over_ms = 0;
  std::uint32_t held_ms = 0;
  std::uint32_t busy_ms = 0;
};

class SetDealer {
 public:
  // Who takes part in a round, and by which reservation; 0: by none.
  struct Member {
    FlowKey key;
    std::uint64_t claim = 0;
    double weight = 1;
  };
  struct Grant {
    double rate = 0;   // cost bytes in a second
    double burst = 0;  // cost bytes
    double used = 0;   // in a second, of late
    bool held = false;
  };
  static constexpr double kMoverWeight = 0.25;

  // A reservation's rate by its number.
  using Claims = std::map<std::uint64_t, double>;

  void OnReport(const FlowKey& key, const FlowReport& report, std::uint64_t now_ms);
  // A round, some times a second. Flows that are no members any more are forgotten.
  void Deal(double capacity, const Claims& claims, const std::vector<Member>& members,
            std::uint64_t now_ms);

  const std::map<FlowKey, Grant>& grants() const { return grants_; }
  double used() const;
  // The others than reservers get so much of what is left; 1: all of it.
  double pressure() const { return pressure_; }

 private:
  struct Flow {
    double used = 0;       // cost in a second, of the last report
    double used_slow = 0;  // the same, over about a second
    double held = 0;       // shares of the time
    double busy = 0;
    double rate = 0;  // dealt last
    std::uint64_t reported_ms = 0;
    std::uint64_t claim = 0;
    double floor = 0;
  };
  void Forget(const std::vector<Member>& members, std::uint64_t now_ms);
  double WantOf(const Flow& flow, double start) const;
  // The floors of flows, of the rates of their reservations.
  void SetFloors(const Claims& claims, double start);
  // How the worst of the reservers fares that have requests with the LUNs all the time: as well as
  // it is to, hardly, or worse.
  enum class Standing { kWell, kTight, kSlow };
  struct Reservers {
    Standing standing = Standing::kWell;
    double rate = 0;  // of those that fare worse than well
  };
  Reservers LookAtReservers(const Claims& claims) const;
  void Press(const Reservers& reservers, double others_used, double rest, std::uint64_t now_ms);

  std::map<FlowKey, Flow> flows_;
  std::map<FlowKey, Grant> grants_;
  double pressure_ = 1;
  double cut_at_ = 1;  // what it was before the last cut
  std::uint32_t slow_rounds_ = 0;
  double rate_when_cut_ = 0;  // of reservers that were slow, before the others were cut
  std::uint32_t vain_cuts_ = 0;
  std::uint64_t cut_ms_ = 0;
  std::uint64_t let_be_until_ms_ = 0;
};

}  // namespace reel::mdc
