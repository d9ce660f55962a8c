// Faults that wait for a moment.
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/sim/faults.h"

namespace reel::sim {
namespace {

constexpr Micros kLease = Cluster::kLeaseMs * kMs;
// Some moments never come, as nobody does that just now.
constexpr Micros kAwaited = kLease;
constexpr Micros kSoon = 300;

}  // namespace

const char* NameOf(Moment moment) {
  static constexpr const char* kNames[kMoments] = {
      "a renewal is sent",     "a commit is sent",   "a return is sent",
      "a close is sent",       "a resize is sent",   "a change of names is sent",
      "a reclaim is sent",     "a recall is sent",   "an answer is sent",
      "an end is recorded",    "a write has landed", "a lock is granted",
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
  const bool power = random().OneIn(moment == Moment::kSynced ? 2 : 20);
  if (power) return Befall(Fault::kFailPower);
  if (random().OneIn(2)) {
    return BefallMachine(kOfMachines[random().Below(std::size(kOfMachines))], machine);
  }
  Befall(kOfControllers[random().Below(std::size(kOfControllers))]);
}

}  // namespace reel::sim
