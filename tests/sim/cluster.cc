#include "tests/sim/cluster.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::sim {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint32_t kBreadthBlocks = 4;
constexpr std::uint64_t kRows = 64;  // 256 blocks, a MiB, on each of two LUNs

VolumeDescriptor Describe() {
  VolumeDescriptor volume;
  volume.volume.bytes[0] = 9;
  volume.name = "reel";
  volume.generation = 1;
  volume.block_bytes = kBlockBytes;
  Pool pool;
  pool.name = "data";
  pool.flags = Pool::kMetadata | Pool::kData;
  pool.breadth_blocks = kBreadthBlocks;
  StripeSet set;
  set.rows = kRows;
  for (std::uint8_t i = 0; i < 2; ++i) {
    LunEntry lun;
    lun.lun.bytes[0] = static_cast<std::uint8_t>(i + 1);
    lun.name = absl::StrCat("lun", i);
    lun.data_start_bytes = kMiB;
    set.luns.push_back(lun);
  }
  pool.sets = {set};
  volume.pools = {pool};
  volume.seat = set.luns[0].lun;
  return volume;
}

}  // namespace

std::vector<std::unique_ptr<Disk>> Cluster::MakeDisks(const VolumeDescriptor& descriptor,
                                                      bool reservations) {
  const std::uint64_t size_bytes = kMiB + kRows * kBreadthBlocks * kBlockBytes;
  std::vector<std::unique_ptr<Disk>> disks;
  for (const LunEntry& lun : descriptor.pools[0].sets[0].luns) {
    disks.push_back(std::make_unique<Disk>(lun.name, size_bytes, reservations));
  }
  return disks;
}

std::vector<Disk*> Cluster::Disks() const {
  std::vector<Disk*> disks;
  for (const auto& disk : disks_) disks.push_back(disk.get());
  return disks;
}

Cluster::Cluster(Scheduler& scheduler, bool reservations, bool verbose)
    : scheduler_(scheduler),
      verbose_(verbose),
      descriptor_(Describe()),
      reservations_(reservations),
      disks_(MakeDisks(descriptor_, reservations)),
      network_(scheduler),
      data_(scheduler),
      controller_(scheduler, network_,
                  {.descriptor = descriptor_,
                   .session_lease_ms = kLeaseMs,
                   .disks = Disks(),
                   .on_session_over = [this](int host) { OnSessionOver(host); },
                   .log = verbose ? [this](const std::string& text) { Print(text); }
                                  : std::function<void(const std::string&)>()}) {
  controller_.Start();
}

Machine* Cluster::AddMachine() {
  const int host = static_cast<int>(machines_.size()) + 1;
  Machine& machine =
      *machines_.emplace_back(std::make_unique<Machine>(host, scheduler_, network_, Disks()));
  machine.weather().on_submit = [this, &machine] {
    const std::uint64_t session = machine.session()->session_id();
    if (!reservations_) CheckSession(machine, session, "writes to a LUN");
    return session;
  };
  machine.weather().on_land = [this, &machine](std::uint64_t session) {
    if (reservations_) CheckSession(machine, session, "has a write land on a LUN");
  };
  machine.SetOnNoticed([this, host] {
    Log([&] { return absl::StrCat("host ", host, " has noticed that its session is over"); });
    data_.SessionNoticed(host);
  });
  const auto mounted = std::make_shared<std::optional<bool>>();
  scheduler_.Spawn(host, [this, &machine, mounted] { *mounted = machine.Start(); });
  while (!mounted->has_value() && scheduler_.alive(host)) scheduler_.Sleep(kMs);
  if (!scheduler_.alive(host)) return nullptr;
  if (!**mounted) {
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
  scheduler_.Kill(machine.host());
  network_.Forget(machine.host());
}

void Cluster::CrashController(Micros down_for) {
  if (!controller_.up()) return;
  controller_.Crash();
  Log([&] { return "*** the controller crashes"; });
  scheduler_.After(down_for, [this] {
    if (controller_.up()) return;
    Log([&] { return "*** the controller starts again"; });
    controller_.Start();
  });
}

void Cluster::FailPower(Micros down_for) {
  Log([&] { return "*** power fails"; });
  for (const auto& machine : machines_) CrashMachine(*machine);
  CrashController(down_for);
  for (const auto& disk : disks_) lost_blocks_ += disk->PowerFails(random());
  data_.PowerFailed();
}

void Cluster::OnSessionOver(int host) {
  Log([&] { return absl::StrCat("the session of host ", host, " is over"); });
  data_.SessionOver(host);
  locks_.SessionOver(host);
  machines_[static_cast<std::size_t>(host - 1)]->pages().Suspect();
}

// A write under a session that the controller has given up may land on blocks that are another
// file's by now.
void Cluster::CheckSession(const Machine& machine, std::uint64_t session, const char* what) {
  if (!controller_.up() || controller_.HasSession(session)) return;
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
  if (!controller_.failure().ok()) all.push_back(controller_.failure().ToString());
  return all;
}

}  // namespace reel::sim
