// Faults that wait for a moment.
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/base/lease.h"
#include "tests/sim/faults.h"

namespace reel::sim {
namespace {

// Some moments never come, as nobody does that just now.
constexpr Micros kAwaited = kLease;
constexpr Micros kSoon = 300;
constexpr Micros kEachWait = 40;

}  // namespace

const char* NameOf(Moment moment) {
  static constexpr const char* kNames[kMoments] = {"a renewal is sent",
                                                   "a commit is sent",
                                                   "a return is sent",
                                                   "a close is sent",
                                                   "a resize is sent",
                                                   "a change of names is sent",
                                                   "a reclaim is sent",
                                                   "a recall is sent",
                                                   "an answer is sent",
                                                   "an end is recorded",
                                                   "an unanswered write has landed",
                                                   "a lock is granted",
                                                   "a file has been synced"};
  return kNames[static_cast<int>(moment)];
}

Moment Faults::AnyMoment() {
  constexpr Moment kMoreOften[] = {Moment::kRecall, Moment::kLanded, Moment::kSynced,
                                   Moment::kCommit};
  if (random().OneIn(3)) return kMoreOften[random().Below(std::size(kMoreOften))];
  return static_cast<Moment>(random().Below(kMoments));
}

// These do not come by themselves.
void Faults::BringAbout(Moment moment) {
  Daemon* const active = cluster_.Active();
  if (active == nullptr) return;
  if (moment == Moment::kReclaim) active->Kill(DownTime());
  if (moment != Moment::kEviction || !active->serves()) return;
  if (Machine* machine = AnyMachine()) active->Evict(machine->session()->session_id());
}

bool Faults::Aim() {
  const Moment moment = AnyMoment();
  BringAbout(moment);
  const std::optional<int> host = cluster_.moments().Await(moment, kAwaited);
  if (!host) return false;
  if (random().OneIn(2)) scheduler().Sleep(random().Below(kSoon));
  Machine& machine = *cluster_.machines()[static_cast<std::size_t>(*host - 1)];
  if (!cluster_.alive(machine) || machine.session() == nullptr) return false;
  ++moments_[static_cast<std::size_t>(moment)];
  cluster_.Log([&] { return absl::StrCat("*** as ", NameOf(moment), " (host ", *host, "):"); });
  aimed_ = true;
  Strike(moment, machine);
  aimed_ = false;
  return true;
}

void Faults::Strike(Moment moment, Machine& machine) {
  constexpr Fault kOfMachines[] = {Fault::kCutStream,    Fault::kHoldBackLong, Fault::kCrashMachine,
                                   Fault::kCrashMachine, Fault::kPauseLong,    Fault::kPauseLong,
                                   Fault::kCutClientSan, Fault::kEvict};
  constexpr Fault kOfControllers[] = {Fault::kKill, Fault::kKill, Fault::kKillInTakeover,
                                      Fault::kStandLong};
  if (moment == Moment::kRenewal && random().OneIn(2)) return DelayRenewal(machine.host());
  const bool power = random().OneIn(moment == Moment::kSynced ? 2 : 20);
  if (power) return InjectFault(Fault::kFailPower);
  if (random().OneIn(2)) {
    return InjectMachineFault(kOfMachines[random().Below(std::size(kOfMachines))], machine);
  }
  InjectFault(kOfControllers[random().Below(std::size(kOfControllers))]);
}

// Whoever counts a lease from the answer takes it for longer than the controller does.
void Faults::DelayRenewal() {
  const std::optional<int> host = cluster_.moments().Await(Moment::kRenewal, kAwaited);
  if (!host) return;
  DelayRenewal(*host);
}

void Faults::DelayRenewal(int host) {
  ++counts_[static_cast<std::size_t>(Fault::kLateRenewal)];
  cluster_.Log([&] { return absl::StrCat("*** renewal answered late (host ", host, ")"); });
  random().OneIn(2) ? DelayAnswer(host) : WakeToAnswer(host);
}

// On its way.
void Faults::DelayAnswer(int host) {
  constexpr Micros kGivenUp = client::RenewalTimeoutMs(Cluster::kLeaseMs) * kMs;
  const Micros late = kGivenUp - random().Between(kMs, kGivenUp / 4);
  const Micros until = scheduler().now() + late + random().Between(kLease, 2 * kLease);
  // (The controller counts from whatever it hears.)
  cluster_.network().HoldRequests(host, until);
  cluster_.network().HoldAnswers(host, scheduler().now() + late);
  For(late + random().Between(kMs, 3 * kMs),
      [this, host, until] { cluster_.network().HoldBack(host, until); });
}

// The host sleeps while its lease runs out, and finds the answer when it wakes, and nothing else:
// what it was in the middle of goes on.
void Faults::WakeToAnswer(int host) {
  constexpr Micros kAwake = 40 * kMs;
  const Micros asleep = kLease + random().Between(kAwake, kLease / 2);
  const Micros until = scheduler().now() + asleep + random().Between(kLease / 4, kLease);
  cluster_.network().HoldRequests(host, until);
  cluster_.network().HoldAnswers(host, scheduler().now() + kAwake);
  const Machine& machine = *cluster_.machines()[static_cast<std::size_t>(host - 1)];
  for (Micros i = 0; i < kAwake / kEachWait - 1 && !cluster_.HasIo(machine); ++i) {
    scheduler().Sleep(kEachWait);
  }
  if (!cluster_.alive(machine)) return;
  scheduler().Pause(host);
  For(2 * kAwake, [this, host, until] {
    cluster_.network().HoldAnswers(host, until);
    cluster_.network().HoldBack(host, until);
  });
  For(asleep, [this, host] {
    scheduler().Resume(host);
    cluster_.Log([&] { return absl::StrCat("*** host ", host, " goes on"); });
  });
}

}  // namespace reel::sim
