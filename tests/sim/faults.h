// What befalls a cluster in the course of a history, and when: by chance, or aimed at a moment;
// some at once. Threads: a fiber of host 0.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/sim/cluster.h"

namespace reel::sim {

inline constexpr Micros kLease = Cluster::kLeaseMs * kMs;

enum class Fault : std::uint8_t {
  kCutStream,
  kHoldBack,      // a host's messages stand still, within its lease
  kHoldBackLong,  // … beyond it
  kCrashMachine,
  kPause,      // a host stands still, within its lease
  kPauseLong,  // … beyond it
  kSlowLuns,
  kEvict,         // a host, while it renews; it does not hear of that at once
  kCutClientSan,  // a host from all LUNs, and not from the controllers, for minutes
  kFailFlushes,   // of LUNs, some of a host's
  kFillPool,      // somebody takes all blocks there are, for a while
  kFillStore,     // the metadata store has no room, for a while
  // A renewal of its lease is answered as late as it may be, and then nothing passes.
  kLateRenewal,
  kFailPower,
  // ---- of controllers, mostly of the one that serves
  kKill,
  kKillInTakeover,  // … and its successor before it serves, or soon after
  // Killed, or not told of its fences, when the end of a session is recorded, and not yet over.
  kDisturbEviction,
  kKillAll,
  kStand,      // it stands still, within its term
  kStandLong,  // … beyond it
  kCutLan,
  kCutSan,
  kSlowController,  // its LUNs are
  kLossy,           // what becomes of its writes to the arbitration block is not told
  kLateBeats,       // its beats are answered late, and then none lands any more
  kHoldCore,        // its core stands still, and nothing else
  kHandOver,
};
inline constexpr int kFaults = 27;
const char* NameOf(Fault fault);

class Faults {
 public:
  // `on_new_machine` is called with each machine that takes the place of a crashed one.
  Faults(Cluster& cluster, std::function<void(Machine&)> on_new_machine)
      : cluster_(cluster), on_new_machine_(std::move(on_new_machine)) {}

  // So many, one after the other; each may outlast the next. Returns when all have passed, and
  // somebody serves.
  void Run(int count);

  // The pool of the data may be filled, and the metadata store.
  void AllowFilling() { may_fill_ = true; }

  const std::array<std::uint32_t, kFaults>& counts() const { return counts_; }
  // How often one was struck.
  const std::array<std::uint32_t, kMoments>& moments() const { return moments_; }

 private:
  Fault Any();
  void InjectFault(Fault fault);
  void InjectMachineFault(Fault fault, Machine& machine);
  // ---- aimed (faults_aimed.cc)
  // Waits for a moment, and strikes whoever it concerns. False: it did not come.
  bool Aim();
  Moment AnyMoment();
  void BringAbout(Moment moment);
  void Strike(Moment moment, Machine& machine);
  void DelayRenewal();
  void DelayRenewal(int host);
  void DelayAnswer(int host);
  void WakeToAnswer(int host);
  // ----
  void InjectControllerFault(Fault fault, Daemon& controller);
  void FailPower();
  void CutSan(Machine& machine);
  // ---- a full pool, a full store (faults_full.cc)
  void FillPool(Machine& machine);
  void RemoveFiller(const std::string& name);
  void FillStore(Machine& machine);
  // `blocks`: also that it can have some.
  void CheckSpace(const std::string& name, bool blocks);
  // ----
  void Stand(Daemon& controller, Micros time);
  void DelayBeats(Daemon& controller);
  void DisturbEviction(Machine& victim);
  void KillInTakeover(Daemon& controller);
  void AwaitService();
  void AwaitEarly();
  Micros DownTime();
  // Lasts for that long; `heal` ends it.
  void For(Micros time, std::function<void()> heal);
  Machine* AnyMachine();
  Daemon* AnyController();
  void Replace();
  Random& random() { return cluster_.random(); }
  Scheduler& scheduler() { return cluster_.scheduler(); }

  Cluster& cluster_;
  const std::function<void(Machine&)> on_new_machine_;
  std::array<std::uint32_t, kFaults> counts_{};
  std::array<std::uint32_t, kMoments> moments_{};
  bool aimed_ = false;  // what befalls now has its moment: it waits for no other
  int under_way_ = 0;
  bool may_fill_ = false;
  bool filling_ = false;
  bool filling_store_ = false;
};

}  // namespace reel::sim
