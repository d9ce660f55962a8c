#include "tests/sim/faults.h"

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

constexpr Micros kLease = Cluster::kLeaseMs * kMs;
constexpr int kLooksForIo = 500;
constexpr Micros kLook = 40;

}  // namespace

const char* NameOf(Fault fault) {
  static constexpr const char* kNames[kFaults] = {
      "stream cut",       "delay",     "delay beyond lease",
      "client crash",     "pause",     "pause beyond lease",
      "controller crash", "slow LUNs", "power failure"};
  return kNames[static_cast<int>(fault)];
}

Fault Faults::Any() {
  // The costly ones, which take most of what goes on with them, are rarer.
  constexpr Fault kChoice[] = {
      Fault::kCutStream, Fault::kCutStream,       Fault::kCutStream,       Fault::kHoldBack,
      Fault::kHoldBack,  Fault::kHoldBackLong,    Fault::kCrashMachine,    Fault::kCrashMachine,
      Fault::kPause,     Fault::kPauseLong,       Fault::kPauseLong,       Fault::kSlowLuns,
      Fault::kSlowLuns,  Fault::kCrashController, Fault::kCrashController, Fault::kCrashController,
  };
  if (random().OneIn(40)) return Fault::kFailPower;
  return kChoice[random().Below(std::size(kChoice))];
}

Machine* Faults::AnyMachine() {
  std::vector<Machine*> alive;
  for (const auto& machine : cluster_.machines()) {
    if (cluster_.alive(*machine) && machine->session() != nullptr) alive.push_back(machine.get());
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

void Faults::Befall(Fault fault) {
  Machine* const machine = AnyMachine();
  if (machine == nullptr) return;
  const int host = machine->host();
  ++counts_[static_cast<std::size_t>(fault)];
  cluster_.Log([&] { return absl::StrCat("*** ", NameOf(fault), " (host ", host, ")"); });
  switch (fault) {
    case Fault::kCutStream:
      cluster_.network().Cut(host);
      break;
    case Fault::kHoldBack:
    case Fault::kHoldBackLong: {
      const bool within = fault == Fault::kHoldBack;
      const Micros time =
          within ? random().Between(10 * kMs, kLease / 2) : random().Between(kLease, 2 * kLease);
      cluster_.network().HoldBack(host, scheduler().now() + time);
      break;
    }
    case Fault::kCrashMachine:
      cluster_.CrashMachine(*machine);
      Replace();
      break;
    case Fault::kPause:
    case Fault::kPauseLong: {
      const bool within = fault == Fault::kPause;
      const Micros time =
          within ? random().Between(kMs, kLease / 2) : random().Between(kLease, 2 * kLease);
      // What it is in the middle of goes on afterwards.
      for (int i = 0; i < kLooksForIo && !cluster_.HasIo(*machine); ++i) scheduler().Sleep(kLook);
      if (!cluster_.alive(*machine)) break;
      scheduler().Pause(host);
      ++under_way_;
      scheduler().After(time, [this, host] {
        scheduler().Resume(host);
        cluster_.Log([&] { return absl::StrCat("*** host ", host, " goes on"); });
        --under_way_;
      });
      break;
    }
    case Fault::kCrashController:
      cluster_.CrashController(random().Between(10 * kMs, random().OneIn(4) ? kLease : 300 * kMs));
      break;
    case Fault::kSlowLuns:
      machine->weather().slow = true;
      ++under_way_;
      scheduler().After(random().Between(50 * kMs, kLease), [this, machine] {
        machine->weather().slow = false;
        --under_way_;
      });
      break;
    case Fault::kFailPower: {
      std::size_t count = 0;
      for (const auto& m : cluster_.machines()) count += cluster_.alive(*m) ? 1 : 0;
      cluster_.FailPower(random().Between(10 * kMs, kLease));
      for (std::size_t i = 0; i < count; ++i) Replace();
      break;
    }
  }
}

void Faults::Run(int count) {
  for (int i = 0; i < count; ++i) {
    scheduler().Sleep(random().Between(5 * kMs, random().OneIn(3) ? 2 * kLease : 300 * kMs));
    Befall(Any());
  }
  while (under_way_ > 0 || !cluster_.controller().up()) scheduler().Sleep(20 * kMs);
}

}  // namespace reel::sim
