#include "tests/sim/faults.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

constexpr Micros kSeat = Cluster::kSeatMs * kMs;
// When all has healed, somebody serves within that time.
constexpr Micros kServedWithin = 10'000 * kMs;
constexpr Micros kLongestSanCut = 60 * kLease;
constexpr Micros kForEver = 3'600'000 * kMs;
constexpr int kLooksForIo = 500;
constexpr int kLooksForEarly = 5'000;
constexpr Micros kLook = 40;

}  // namespace

const char* NameOf(Fault fault) {
  static constexpr const char* kNames[kFaults] = {"stream cut",
                                                  "delay",
                                                  "delay beyond lease",
                                                  "client crash",
                                                  "pause",
                                                  "pause beyond lease",
                                                  "slow LUNs",
                                                  "eviction",
                                                  "SAN cut",
                                                  "flushes fail",
                                                  "pool filled",
                                                  "store filled",
                                                  "renewal answered late",
                                                  "power failure",
                                                  "mdc: killed",
                                                  "mdc: killed in takeover",
                                                  "mdc: disturbed in eviction",
                                                  "mdc: all killed",
                                                  "mdc: pause",
                                                  "mdc: pause beyond term",
                                                  "mdc: LAN cut",
                                                  "mdc: SAN cut",
                                                  "mdc: slow LUNs",
                                                  "mdc: outcomes not told",
                                                  "mdc: beats answered late",
                                                  "mdc: core stands still",
                                                  "mdc: handed over"};
  return kNames[static_cast<int>(fault)];
}

Fault Faults::Any() {
  // The costly ones, which take most of what goes on with them, are rarer.
  constexpr Fault kOfMachines[] = {
      Fault::kCutStream,    Fault::kCutStream,    Fault::kCutStream,    Fault::kHoldBack,
      Fault::kHoldBack,     Fault::kHoldBackLong, Fault::kPause,        Fault::kPauseLong,
      Fault::kCrashMachine, Fault::kCrashMachine, Fault::kPauseLong,    Fault::kSlowLuns,
      Fault::kSlowLuns,     Fault::kEvict,        Fault::kCutClientSan, Fault::kLateRenewal,
      Fault::kFailFlushes,  Fault::kFillPool,     Fault::kFillStore,
  };
  constexpr Fault kOfControllers[] = {
      Fault::kKill,    Fault::kKill,           Fault::kKillInTakeover, Fault::kDisturbEviction,
      Fault::kStand,   Fault::kStandLong,      Fault::kStandLong,      Fault::kCutLan,
      Fault::kCutSan,  Fault::kSlowController, Fault::kLossy,          Fault::kLossy,
      Fault::kKillAll, Fault::kHoldCore,       Fault::kHandOver,       Fault::kLateBeats,
  };
  if (random().OneIn(40)) return Fault::kFailPower;
  if (random().OneIn(3)) return kOfControllers[random().Below(std::size(kOfControllers))];
  return kOfMachines[random().Below(std::size(kOfMachines))];
}

Machine* Faults::AnyMachine() {
  std::vector<Machine*> alive;
  for (const auto& machine : cluster_.machines()) {
    if (cluster_.alive(*machine) && machine->mounted()) alive.push_back(machine.get());
  }
  return alive.empty() ? nullptr : alive[random().Below(alive.size())];
}

void Faults::Replace() {
  ++under_way_;
  scheduler().Spawn(0, [this] {
    scheduler().Sleep(random().Between(50 * kMs, 3 * kLease));
    if (Machine* machine = cluster_.AddMachine()) on_new_machine_(*machine);
    --under_way_;
  });
}

// Mostly the one that serves.
Daemon* Faults::AnyController() {
  Daemon* const active = cluster_.Active();
  if (active != nullptr && !random().OneIn(5)) return active;
  const auto& all = cluster_.controllers();
  return all[random().Below(all.size())].get();
}

Micros Faults::DownTime() {
  return random().Between(kMs, random().OneIn(4) ? kLease : 300 * kMs);
}

void Faults::For(Micros time, std::function<void()> heal) {
  ++under_way_;
  scheduler().After(time, [this, heal = std::move(heal)] {
    heal();
    --under_way_;
  });
}

// Mostly little is told that is not durable: so that it is seen what becomes of that.
void Faults::AwaitEarly() {
  const auto any = [&] {
    for (const auto& machine : cluster_.machines()) {
      if (!cluster_.alive(*machine) || machine->session() == nullptr) continue;
      if (!machine->session()->Confirmed(machine->session()->last_early_number())) return true;
    }
    return false;
  };
  for (int i = 0; i < kLooksForEarly && !any(); ++i) scheduler().Sleep(kLook);
  scheduler().Sleep(random().Below(2 * kMs));
}

void Faults::InjectFault(Fault fault) {
  const bool makes_sent_again = fault == Fault::kCutStream || fault == Fault::kKill ||
                                fault == Fault::kKillInTakeover || fault == Fault::kKillAll;
  if (makes_sent_again && !aimed_ && random().OneIn(2)) AwaitEarly();
  if (fault == Fault::kFillPool && (!may_fill_ || filling_)) return;
  if (fault == Fault::kFillStore && (!may_fill_ || filling_store_)) return;
  if (fault == Fault::kLateRenewal) {
    DelayRenewal();
  } else if (fault < Fault::kFailPower) {
    Machine* const machine = AnyMachine();
    if (machine != nullptr) InjectMachineFault(fault, *machine);
  } else if (fault == Fault::kFailPower) {
    ++counts_[static_cast<std::size_t>(fault)];
    FailPower();
  } else {
    Daemon* const controller = AnyController();
    if (controller->running()) InjectControllerFault(fault, *controller);
  }
}

void Faults::InjectMachineFault(Fault fault, Machine& machine) {
  const int host = machine.host();
  ++counts_[static_cast<std::size_t>(fault)];
  cluster_.Log([&] { return absl::StrCat("*** ", NameOf(fault), " (host ", host, ")"); });
  const bool within = fault == Fault::kHoldBack || fault == Fault::kEvict || fault == Fault::kPause;
  const Micros time =
      within ? random().Between(kMs, kLease / 2) : random().Between(kLease, 2 * kLease);
  switch (fault) {
    case Fault::kCutStream:
      cluster_.network().Cut(host);
      break;
    case Fault::kHoldBack:
    case Fault::kHoldBackLong:
      cluster_.network().HoldBack(host, scheduler().now() + time);
      break;
    case Fault::kEvict:
      cluster_.network().HoldBack(host, scheduler().now() + time);
      if (Daemon* active = cluster_.Active()) active->Evict(machine.session()->session_id());
      break;
    case Fault::kCutClientSan:
      CutSan(machine);
      break;
    case Fault::kCrashMachine:
      cluster_.CrashMachine(machine);
      Replace();
      break;
    case Fault::kFillPool:
      if (machine.mounted()) FillPool(machine);
      break;
    case Fault::kFillStore:
      if (machine.mounted()) FillStore(machine);
      break;
    case Fault::kFailFlushes:
      machine.fault_rates().flushes_fail = true;
      For(random().Between(5 * kMs, kLease / 2),
          [&machine] { machine.fault_rates().flushes_fail = false; });
      break;
    case Fault::kSlowLuns:
      machine.fault_rates().slow = true;
      For(random().Between(50 * kMs, kLease), [&machine] { machine.fault_rates().slow = false; });
      break;
    default:
      // What it is in the middle of goes on afterwards.
      for (int i = 0; i < kLooksForIo && !aimed_ && !cluster_.HasIo(machine); ++i) {
        scheduler().Sleep(kLook);
      }
      if (!cluster_.alive(machine)) break;
      scheduler().Pause(host);
      For(time, [this, host] {
        scheduler().Resume(host);
        cluster_.Log([&] { return absl::StrCat("*** host ", host, " goes on"); });
      });
      break;
  }
}

// (A LUN without reservations has no paths: what is cut off it then fails at once.)
void Faults::CutSan(Machine& machine) {
  if (!cluster_.reservations()) return;
  const Micros time = random().Between(kLease, kLongestSanCut);
  Path::FaultRates& fault_rates = machine.fault_rates();
  fault_rates.cut = true;
  fault_rates.cut_until = scheduler().now() + time;
  For(time, [this, &fault_rates, host = machine.host()] {
    if (scheduler().now() < fault_rates.cut_until) return;  // it was cut again
    fault_rates.cut = false;
    cluster_.Log([&] { return absl::StrCat("*** host ", host, " is on the SAN again"); });
  });
}

void Faults::FailPower() {
  std::size_t count = 0;
  for (const auto& m : cluster_.machines()) count += cluster_.alive(*m) ? 1 : 0;
  cluster_.FailPower(random().Between(10 * kMs, kLease));
  for (std::size_t i = 0; i < count; ++i) Replace();
}

void Faults::InjectControllerFault(Fault fault, Daemon& controller) {
  ++counts_[static_cast<std::size_t>(fault)];
  cluster_.Log([&] { return absl::StrCat("*** ", NameOf(fault), ": ", controller.number()); });
  Path::FaultRates& fault_rates = controller.fault_rates();
  switch (fault) {
    case Fault::kKill:
      controller.Kill(DownTime());
      break;
    case Fault::kKillInTakeover:
      KillInTakeover(controller);
      break;
    case Fault::kDisturbEviction:
      if (Machine* victim = AnyMachine(); victim != nullptr) DisturbEviction(*victim);
      break;
    case Fault::kKillAll:
      for (const auto& each : cluster_.controllers()) each->Kill(DownTime());
      break;
    case Fault::kStand:
      Stand(controller, random().Between(kMs, kSeat / 2));
      break;
    case Fault::kStandLong:
      Stand(controller, random().Between(kSeat, 4 * kSeat));
      break;
    case Fault::kCutLan:
      cluster_.network().HoldBack(controller,
                                  scheduler().now() + random().Between(50 * kMs, 2 * kLease));
      break;
    case Fault::kCutSan:
      fault_rates.cut = true;
      For(random().Between(50 * kMs, kLease), [&fault_rates] { fault_rates.cut = false; });
      break;
    case Fault::kSlowController:
      fault_rates.slow = true;
      For(random().Between(50 * kMs, kLease), [&fault_rates] { fault_rates.slow = false; });
      break;
    case Fault::kLossy:
      fault_rates.lossy = true;
      fault_rates.void_writes = random().OneIn(2);
      For(random().Between(kSeat, 2 * kLease),
          [&fault_rates] { fault_rates.lossy = fault_rates.void_writes = false; });
      break;
    case Fault::kLateBeats:
      DelayBeats(controller);
      break;
    case Fault::kHoldCore:
      controller.HoldCore(random().OneIn(3) ? random().Between(kMs, kSeat / 2) : kForEver);
      break;
    default:
      ++under_way_;
      scheduler().Spawn(0, [this, &controller] {
        controller.Stop(/*offer=*/random().OneIn(2), /*last=*/false);
        --under_way_;
      });
      break;
  }
}

void Faults::DelayBeats(Daemon& controller) {
  Path::FaultRates& fault_rates = controller.fault_rates();
  fault_rates.late_beats = true;
  For(random().Between(kSeat / 2, 2 * kSeat), [this, &fault_rates] {
    fault_rates.lossy = fault_rates.void_writes = true;
    For(random().Between(kSeat, 3 * kSeat), [&fault_rates] {
      fault_rates.lossy = fault_rates.void_writes = fault_rates.late_beats = false;
    });
  });
}

void Faults::Stand(Daemon& controller, Micros time) {
  if (!cluster_.Pause(controller)) return;
  For(time, [this, &controller] {
    if (!controller.paused()) return;
    cluster_.Log([&] { return absl::StrCat("*** mdc", controller.number(), " goes on"); });
    controller.Resume();
  });
}

void Faults::KillInTakeover(Daemon& controller) {
  const std::uint64_t claims = cluster_.terms().claims();
  controller.Kill(DownTime());
  ++under_way_;
  scheduler().Spawn(0, [this, claims] {
    constexpr int kLooks = 3000;
    for (int i = 0; i < kLooks && cluster_.terms().claims() == claims; ++i) {
      scheduler().Sleep(kMs);
    }
    scheduler().Sleep(random().Below(random().OneIn(2) ? 3 * kMs : 200 * kMs));
    if (Daemon* next = cluster_.Active(); next != nullptr) next->Kill(DownTime());
    --under_way_;
  });
}

// A machine falls silent with writes on their way, for longer than its lease; and when its end is
// recorded, the controller falls too, or is not told what becomes of its fences.
void Faults::DisturbEviction(Machine& victim) {
  victim.fault_rates().stuck = true;
  scheduler().Sleep(random().Between(kMs, 200 * kMs));
  if (!cluster_.alive(victim)) {
    victim.fault_rates().stuck = false;
    return;
  }
  InjectMachineFault(Fault::kPauseLong, victim);
  ++under_way_;
  scheduler().Spawn(0, [this, &victim] {
    constexpr Micros kOften = 100;
    const Micros until = scheduler().now() + 2 * kLease;
    while (scheduler().now() < until && cluster_.ending_sessions() == 0) scheduler().Sleep(kOften);
    Daemon* const active = cluster_.Active();
    if (active != nullptr && random().OneIn(2)) {
      active->fault_rates().lossy_fences = true;
      scheduler().Sleep(random().Between(100 * kMs, kLease));
      active->fault_rates().lossy_fences = false;
    } else if (active != nullptr) {
      if (random().OneIn(2)) scheduler().Sleep(random().Below(2 * kMs));
      active->Kill(DownTime());
    }
    victim.fault_rates().stuck = false;
    --under_way_;
  });
}

void Faults::Run(int count) {
  for (int i = 0; i < count; ++i) {
    scheduler().Sleep(random().Between(5 * kMs, random().OneIn(3) ? 2 * kLease : 300 * kMs));
    if (random().OneIn(2) || !Aim()) InjectFault(Any());
  }
  while (under_way_ > 0) scheduler().Sleep(20 * kMs);
  AwaitService();
}

void Faults::AwaitService() {
  const Micros until = scheduler().now() + kServedWithin + 2 * kLease;
  while (scheduler().now() < until) {
    const auto answered = std::make_shared<bool>(false);
    Daemon* const active = cluster_.Active();
    if (active != nullptr) active->Ask(answered);
    scheduler().Sleep(50 * kMs);
    if (*answered) return;
  }
  cluster_.Violate("nobody serves, long after all faults have passed");
}

}  // namespace reel::sim
