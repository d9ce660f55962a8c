#include "tests/sim/cluster.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/base/lease.h"
#include "mdc/check/checker.h"
#include "mdc/store/store.h"

namespace reel::sim {
namespace {

std::string AddressOf(int number) {
  return absl::StrCat("mdc", number);
}

}  // namespace

std::vector<Disk*> Cluster::Disks() const {
  std::vector<Disk*> disks;
  for (const auto& disk : disks_) disks.push_back(disk.get());
  return disks;
}

Cluster::Cluster(Scheduler& scheduler, const Options& options)
    : scheduler_(scheduler),
      options_(options),
      disks_(FormattedDisks(options.shape, options.reservations)),
      moments_(scheduler),
      network_(scheduler, moments_),
      data_(scheduler),
      terms_(scheduler, options.reservations, [this](std::string what) { Violate(what); }) {
  LunRack& rack = LunRack::Get();
  rack.disks = Disks();
  rack.places[0] = {&calm_, -1};
  StoreEvents::Get().on_sessions = [this](const auto& sessions) { OnSessions(sessions); };
}

// ---- controllers ------------------------------------------------------------------------------

void Cluster::Start() {
  for (int number = 1; number <= options_.controllers; ++number) {
    Daemon::Options options;
    options.number = number;
    options.address = AddressOf(number);
    options.session_lease_ms = kLeaseMs;
    options.changing_leases = options_.changing_leases;
    options.seat_ms = kSeatMs;
    if (scheduler_.random().OneIn(2)) {
      options.steps = {.extents = scheduler_.random().Between(2, 8),
                       .reaped = scheduler_.random().Between(2, 8)};
    }
    options.names = options_.names;
    options.small_file_bytes = options_.small_file_bytes;
    options.on_answer = [this, number](Epoch epoch) { terms_.OnAnswered(epoch, number); };
    options.free_store_bytes = [this](const auto& fs) { return FreeStoreBytes(fs); };
    for (Disk* disk : Disks()) options.luns.push_back(disk->name());
    if (options_.verbose) options.log = [this](const std::string& text) { Print(text); };
    Daemon& daemon = *controllers_.emplace_back(
        std::make_unique<Daemon>(scheduler_, network_, std::move(options)));
    daemon.fault_rates().on_written = [this, &daemon](const Disk& disk, int host,
                                                      std::uint64_t offset_bytes,
                                                      std::span<const std::byte> bytes) {
      terms_.OnWritten(disk, offset_bytes, bytes, host, daemon.number());
    };
  }
  for (const auto& daemon : controllers_) daemon->Start();
}

void Cluster::SetStoreRoom(StoreRoom room) {
  constexpr const char* kTold[] = {"has room", "is full", "is full to the last"};
  store_room_ = room;
  last_store_full_ = scheduler_.now();
  Log([&] { return absl::StrCat("*** the metadata store ", kTold[static_cast<int>(room)]); });
}

std::uint64_t Cluster::FreeStoreBytes(const metafs::MetaFs& fs) const {
  switch (store_room_) {
    case StoreRoom::kAmple:
      return fs.FreeBytes();
    case StoreRoom::kFull:
      return fs.WorkingBytes();
    case StoreRoom::kExhausted:
      return fs.WorkingBytes() / 2;
  }
  return 0;
}

void Cluster::Stop() {
  Daemon* const active = Active();
  for (const auto& daemon : controllers_) {
    if (daemon.get() != active) daemon->Stop(/*offer=*/false, /*last=*/true);
  }
  if (active != nullptr) active->Stop(/*offer=*/false, /*last=*/true);
  CheckVolume();
}

absl::StatusOr<OpenVolume> Cluster::OpenAtEnd() const {
  if (options_.shape == Shape::kOnePool) return OpenOnHost0(disks_, !remade_.empty());
  std::vector<std::string> names;
  for (const auto& disk : disks_) names.push_back(disk->name());
  return OpenVolumeByName("reel", names, LunAccess::kReadOnly);
}

void Cluster::CheckVolume() {
  for (std::size_t i = 0; i < remade_.size(); ++i) {
    if (DataOn(*disks_[i]) != remade_[i])
      Violate("a host has written to a volume it never mounted");
  }
  auto volume = OpenAtEnd();
  if (!volume.ok()) return Violate(absl::StrCat("fsck: ", volume.status().ToString()));
  map_changes_ = volume->descriptor.generation - 1;
  for (const std::string& problem : mdc::Store::Check(*volume)) {
    Violate(absl::StrCat("fsck: ", problem));
  }
  const auto store = mdc::Store::Open(*volume, {.read_only = true});
  if (!store.ok()) return Violate(absl::StrCat("fsck: ", store.status().ToString()));
  mdc::CheckVolume(
      {(*store)->db(), volume->descriptor, (*store)->regions()},
      {.on_phase = [](std::string_view) {},
       .on_problem =
           [&](const mdc::Problem& problem) {
             Violate(absl::StrCat("fsck: ", problem.code, ": ", problem.where, ": ", problem.what));
           }});
}

Daemon* Cluster::Active() const {
  Daemon* found = nullptr;
  for (const auto& daemon : controllers_) {
    if (!daemon->running() || (found != nullptr && !daemon->serves())) continue;
    // Of two that think so, the later one is right.
    if (found == nullptr || !found->serves() || daemon->Where().epoch > found->Where().epoch) {
      found = daemon.get();
    }
  }
  return found;
}

bool Cluster::Quiet() const {
  const Daemon* const active = Active();
  return active != nullptr && active->serves() && active->Counter("session.now") <= 1 &&
         active->Counter("orphans.now") == 0;
}

std::uint64_t Cluster::ending_sessions() const {
  return static_cast<std::uint64_t>(std::count_if(sessions_.begin(), sessions_.end(),
                                                  [](const auto& s) { return s.second.evicted; }));
}

// From the record of its end on, which its host may learn of before others get what it held.
void Cluster::OnSessions(const StoreEvents::Sessions& sessions) {
  for (const auto& [session, facts] : std::exchange(sessions_, sessions)) {
    const auto now = sessions.find(session);
    const bool over = now == sessions.end() || now->second.evicted;
    if (!facts.evicted && over && noticed_.erase(session) == 0) OnSessionOver(facts.host);
  }
}

// The controller may say so before the end is recorded.
void Cluster::OnNoticed(int host) {
  Log([&] { return absl::StrCat("host ", host, " has noticed that its session is over"); });
  for (const auto& [session, facts] : sessions_) {
    if (facts.host != host || facts.evicted || !noticed_.insert(session).second) continue;
    OnSessionOver(host);
  }
  data_.SessionNoticed(host);
}

// ---- machines ---------------------------------------------------------------------------------

Machine* Cluster::AddMachine() {
  const int host = static_cast<int>(machines_.size()) + 1;
  std::vector<std::string> addresses;
  for (int number = 1; number <= options_.controllers; ++number) {
    addresses.push_back(AddressOf(number));
  }
  Machine& machine = *machines_.emplace_back(std::make_unique<Machine>(
      host, scheduler_, network_, Disks(), std::move(addresses),
      /*may_be_old=*/options_.shape == Shape::kOnePool && options_.small_file_bytes == 0,
      options_.small_file_bytes));
  machine.fault_rates().on_submit = [this, &machine] {
    const std::uint64_t session = machine.session()->session_id();
    if (!options_.reservations) CheckSession(machine, session, "writes to a LUN");
    return session;
  };
  machine.fault_rates().on_land = [this, &machine](const Disk& disk, std::uint64_t session,
                                                   bool answered) {
    if (!answered) moments_.Note(Moment::kLanded, machine.host());
    // (One that waited on its way may come to a LUN that has left meanwhile.)
    if (options_.reservations && IsOfTheVolume(disk)) {
      CheckSession(machine, session, "has a write land on a LUN");
    }
  };
  machine.fault_rates().on_flush_failed = [this, host] {
    Log([&] { return absl::StrCat("*** a flush of host ", host, " fails"); });
    data_.FlushFailed(host);
  };
  machine.fault_rates().on_written = [this, host](const Disk&, int, std::uint64_t,
                                                  std::span<const std::byte> bytes) {
    data_.Landed(host, bytes);
  };
  machine.SetOnNoticed([this, host] { OnNoticed(host); });
  const Micros began = scheduler_.now();
  const auto mounted = std::make_shared<std::optional<bool>>();
  scheduler_.Spawn(host, [&machine, mounted] { *mounted = machine.Start(); });
  while (!mounted->has_value() && scheduler_.alive(host)) scheduler_.Sleep(kMs);
  if (!scheduler_.alive(host)) return nullptr;
  if (!**mounted) {
    // A mount does not wait for LUNs that stay away, or come back as it gives up: it fails, and
    // somebody else mounts.
    constexpr Micros kAMoment = 2000 * kMs;
    const bool away =
        machine.fault_rates().cut || machine.fault_rates().cut_until + kAMoment > scheduler_.now();
    const Micros waited = scheduler_.now() - began + kAMoment;
    if (away && waited >= client::FirstRegistrationMs() * kMs) {
      CrashMachine(machine);
      return AddMachine();
    }
    Violate(absl::StrCat("host ", host, " could not mount the volume"));
    return nullptr;
  }
  Log([&] { return absl::StrCat("host ", host, " has mounted the volume"); });
  return &machine;
}

bool Cluster::HasIo(const Machine& machine) const {
  return std::any_of(disks_.begin(), disks_.end(), [&](const auto& disk) {
    return std::any_of(disk->flights().begin(), disk->flights().end(),
                       [&](const auto& flight) { return flight->host == machine.host(); });
  });
}

// ---- what befalls them ------------------------------------------------------------------------

void Cluster::CrashMachine(Machine& machine) {
  if (!alive(machine)) return;
  Log([&] { return absl::StrCat("*** host ", machine.host(), " crashes"); });
  machine.Crashed();
  data_.HostCrashed(machine.host());
  scheduler_.Kill(machine.host());
  network_.Forget(machine.host());
}

// Where the lease protects, a host does not pause between a look at its clock and the write that
// this allowed: that is assumed (docs/failover.md).
bool Cluster::Pause(Daemon& controller) {
  constexpr int kLooks = 4000;
  constexpr Micros kLook = 40;
  const auto is_a_moment = [&] {
    return options_.reservations ? controller.IsAboutToWrite() : !controller.Writes();
  };
  for (int i = 0; i < kLooks && !is_a_moment(); ++i) scheduler_.Sleep(kLook);
  if (!controller.running() || (!options_.reservations && controller.Writes())) return false;
  controller.Pause();
  Log([&] { return absl::StrCat("*** mdc", controller.number(), " stands still"); });
  return true;
}

void Cluster::FailPower(Micros down_for) {
  Log([&] { return "*** power fails"; });
  for (const auto& machine : machines_) CrashMachine(*machine);
  for (const auto& daemon : controllers_) daemon->Kill(down_for + random().Below(50 * kMs));
  for (const auto& disk : disks_) lost_blocks_ += disk->PowerFails(random());
  data_.PowerFailed();
}

void Cluster::Remake() {
  Log([&] { return "*** mkfs.reelfs --force"; });
  RemakeVolume(disks_);
  for (const auto& disk : disks_) remade_.push_back(DataOn(*disk));
  terms_.Remade();
  sessions_.clear();
}

bool Cluster::CutHostIsSlow() const {
  return std::ranges::any_of(machines_, [this](const std::unique_ptr<Machine>& machine) {
    const bool old = options_.names == mdc::NameReplies::kDurable || machine->speaks_old();
    return (old || options_.changing_leases) && machine->fault_rates().cut_until != 0;
  });
}

bool Cluster::AnyCutSince(Micros time) const {
  return std::ranges::any_of(machines_, [time](const std::unique_ptr<Machine>& machine) {
    return machine->fault_rates().cut_until > time;
  });
}

void Cluster::OnSessionOver(int host) {
  Log([&] { return absl::StrCat("the session of host ", host, " is over"); });
  if (on_session_over_) on_session_over_(host, data_.LastSessionOver(host));
  moments_.Note(Moment::kEviction, host);
  data_.SessionOver(host);
  locks_.SessionOver(host);
  machines_[static_cast<std::size_t>(host - 1)]->pages().Suspect();
}

// A write under a session that the controllers have given up may land on blocks that are another
// file's by now.
void Cluster::CheckSession(const Machine& machine, std::uint64_t session, const char* what) {
  if (sessions_.contains(session)) return;
  Violate(absl::StrCat("host ", machine.host(), " ", what, " under session ", session,
                       ", which is over"));
}

// ---- the record -------------------------------------------------------------------------------

void Cluster::Print(const std::string& text) {
  std::printf("%10.3f ms  %s\n", static_cast<double>(scheduler_.now()) / 1000, text.c_str());
}

void Cluster::Violate(std::string what) {
  Log([&] { return absl::StrCat("!!! ", what); });
  violations_.push_back(std::move(what));
}

std::vector<std::string> Cluster::Violations() const {
  std::vector<std::string> all = violations_;
  all.insert(all.end(), data_.violations().begin(), data_.violations().end());
  all.insert(all.end(), locks_.violations().begin(), locks_.violations().end());
  return all;
}

Cluster::Totals Cluster::totals() const {
  Totals totals;
  for (const auto& disk : disks_) {
    totals.refused_writes += disk->refusals();
    totals.preemptions += disk->preemptions;
    totals.unknowns += disk->unknowns;
  }
  return totals;
}

}  // namespace reel::sim
