#include "mdc/map/map_keeper.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/map/map_change.h"
#include "mdc/space/areas.h"
#include "spdlog/spdlog.h"
#include "volume/format/label.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel::mdc {
namespace {

// What a LUN that is busy is asked for once more, each time after a longer pause.
constexpr std::uint32_t kTries = 6;

std::uint64_t SizeOf(const VolumeDescriptor& volume) {
  std::uint64_t blocks = 0;
  for (const Pool& pool : volume.pools) blocks += pool.capacity_blocks();
  return blocks * volume.block_bytes;
}

// As their devices say now, by the stripe map's flat index.
absl::StatusOr<std::vector<LunFacts>> FactsNow(const OpenVolume& volume) {
  std::vector<LunFacts> facts;
  for (const Pool& pool : volume.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        Lun& lun = *volume.luns[facts.size()];
        const auto size = lun.SizeNow();
        if (!size.ok()) return size.status();
        facts.push_back(FactsOf(lun, entry.lun, entry.name));
        facts.back().size_bytes = *size;
      }
    }
  }
  return facts;
}

// The place of the LUN where it stands first, as its label says it.
Label LabelOf(const VolumeDescriptor& volume, const Uuid& lun) {
  for (std::uint32_t p = 0; p < volume.pools.size(); ++p) {
    for (std::uint32_t s = 0; s < volume.pools[p].sets.size(); ++s) {
      const std::vector<LunEntry>& luns = volume.pools[p].sets[s].luns;
      const auto entry = std::ranges::find(luns, lun, &LunEntry::lun);
      if (entry == luns.end()) continue;
      return {.lun = lun,
              .name = entry->name,
              .volume = volume.volume,
              .pool = p,
              .stripe_set = s,
              .position = static_cast<std::uint32_t>(entry - luns.begin())};
    }
  }
  return {};
}

}  // namespace

// ---- the thread -------------------------------------------------------------------------------

void MapKeeper::Change(v1::ChangeMapRequest request, Done<v1::ChangeMapReply> done) {
  Add([this, request = std::move(request), done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoChange(request) : absl::StatusOr<v1::ChangeMapReply>(may));
  });
}

void MapKeeper::CloseSpace(v1::CloseSpaceRequest request, Done<v1::CloseSpaceReply> done) {
  Add([this, request = std::move(request), done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoCloseSpace(request) : absl::StatusOr<v1::CloseSpaceReply>(may));
  });
}

void MapKeeper::CatchUp() {
  Add([this](const absl::Status& may) {
    if (!may.ok()) return;
    WriteCopies(served_.maps.now());
    Relabel(served_.maps.now(), /*grown=*/false);
  });
}

std::string MapKeeper::Alarm() const {
  MutexLock lock(mutex_);
  return alarm_;
}

void MapKeeper::Add(Job job) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = ControllerStops();
    } else if (jobs_.size() >= kMaxJobs) {
      refused = absl::UnavailableError("too many changes of the map wait; try again");
    } else {
      jobs_.push_back(std::move(job));
      if (!thread_.joinable()) thread_ = Thread([this] { Main(); });
      wake_.NotifyAll();
      return;
    }
  }
  job(refused);
}

void MapKeeper::Main() {
  for (;;) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) wake_.Wait(mutex_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job(absl::OkStatus());
  }
}

void MapKeeper::Stop() {
  std::deque<Job> left;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    left.swap(jobs_);
    wake_.NotifyAll();
    synced_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
  for (const Job& job : left) job(ControllerStops());
}

void MapKeeper::OnDurable(Sequence sequence) {
  MutexLock lock(mutex_);
  durable_ = sequence;
  synced_.NotifyAll();
}

absl::StatusOr<v1::CloseSpaceReply> MapKeeper::DoCloseSpace(const v1::CloseSpaceRequest& request) {
  const VolumeDescriptor& volume = served_.maps.now().descriptor;
  v1::CloseSpaceReply reply;
  std::vector<Run> areas;
  for (std::uint32_t i = 0; i < volume.pools.size(); ++i) {
    const Pool& pool = volume.pools[i];
    if ((pool.flags & Pool::kData) == 0) continue;
    const std::vector<Run> areas_of_pool = SetsOf(volume, PoolId(i));
    for (std::uint32_t set = 0; set < pool.sets.size(); ++set) {
      const std::vector<LunEntry>& luns = pool.sets[set].luns;
      const bool named = request.pool().empty()
                             ? std::ranges::find(luns, request.lun(), &LunEntry::name) != luns.end()
                             : pool.name == request.pool();
      if (!named) continue;
      areas.push_back(areas_of_pool[set]);
      for (const LunEntry& lun : luns) reply.add_luns(lun.name);
    }
  }
  if (areas.empty()) {
    const std::string what = request.pool().empty() ? absl::StrCat("LUN ", request.lun())
                                                    : absl::StrCat("pool ", request.pool());
    return absl::NotFoundError(absl::StrCat("volume ", volume.name, " has no ", what,
                                            " with files; \"reeladm show\" lists them"));
  }
  const auto committed = AskCore<Sequence>(
      served_.run_on_core, [&](Core& core) { return core.SetClosed(areas, request.closed()); });
  if (!committed.ok()) return committed.status();
  MutexLock lock(mutex_);
  while (durable_ < *committed && !stopping_) synced_.Wait(mutex_);
  if (durable_ < *committed) return ControllerStops();
  return reply;
}

// ---- a change ---------------------------------------------------------------------------------

absl::Status MapKeeper::CheckClients(const v1::ChangeMapRequest& request) {
  if (!Grows(request)) return absl::OkStatus();
  const auto may = AskCore<bool>(served_.run_on_core, [](Core& core) -> absl::StatusOr<bool> {
    if (absl::Status s = core.MayGrow(); !s.ok()) return s;
    return true;
  });
  return may.status();
}

absl::StatusOr<v1::ChangeMapReply> MapKeeper::DoChange(const v1::ChangeMapRequest& request) {
  OpenVolume& before = served_.maps.now();
  if (absl::Status s = CheckClients(request); !s.ok()) return s;
  const std::vector<std::string> names = AddedLuns(request);
  const std::vector<std::string> force(request.force().begin(), request.force().end());
  const auto added = ChooseNewLuns(before, {names, force, served_.patterns});
  if (!added.ok()) return added.status();
  const auto now = FactsNow(before);
  if (!now.ok()) return now.status();
  std::vector<LunFacts> facts;
  for (const ChosenLun& lun : *added) facts.push_back(lun.facts);
  const auto map = NextMap(before.descriptor, request, facts, *now);
  if (!map.ok()) return map.status();

  OpenLuns opened;
  for (const ChosenLun& lun : *added) {
    auto path = OpenLun(lun.name, LunAccess::kReadWrite);
    if (!path.ok()) return path.status();
    opened.emplace(lun.as.uuid, NamedLun{*std::move(path), lun.name});
  }
  if (absl::Status s = Install(before, *map, std::move(opened), *added); !s.ok()) return s;
  if (request.has_grow()) Relabel(served_.maps.now(), /*grown=*/true);
  spdlog::info("volume {}: {}", map->name, TextOf(request));
  v1::ChangeMapReply reply;
  reply.set_map_generation(map->generation);
  reply.set_added_bytes(SizeOf(*map) - SizeOf(before.descriptor));
  return reply;
}

void MapKeeper::Restripe(const RestripeOrder& order,
                         std::function<void(const absl::Status&)> done) {
  Add([this, order, done = std::move(done)](const absl::Status& may) {
    if (!may.ok()) return done(may);
    OpenVolume& before = served_.maps.now();
    const auto map = Restriped(before.descriptor, order);
    done(map.ok() ? Install(before, *map, {}, {}) : map.status());
  });
}

absl::Status MapKeeper::Install(OpenVolume& before, const VolumeDescriptor& map, OpenLuns opened,
                                const std::vector<ChosenLun>& added) {
  auto volume = OpenMoreLuns(before, map, std::move(opened));
  if (!volume.ok()) return volume.status();
  OpenVolume& next = served_.maps.Keep(std::make_unique<OpenVolume>(*std::move(volume)));
  const auto quarantine_ms = TakeLuns(before, next, added);
  if (!quarantine_ms.ok()) return quarantine_ms.status();
  if (absl::Status s = WriteSeat(next); !s.ok()) return s;
  WriteCopies(next);
  Relabel(next, /*grown=*/false);
  Unlabel(before, next);
  served_.maps.SetNow(next);
  served_.changed();
  const auto taken = AskCore<bool>(served_.run_on_core, [&](Core& core) -> absl::StatusOr<bool> {
    if (absl::Status s = core.TakeMap(map, *quarantine_ms); !s.ok()) return s;
    return true;
  });
  return taken.status();
}

absl::StatusOr<std::uint64_t> MapKeeper::TakeLuns(OpenVolume& before, OpenVolume& next,
                                                  const std::vector<ChosenLun>& added) {
  auto held = served_.hold(next);
  absl::Status status = held.status();
  if (status.ok()) status = Label(next, added);
  if (status.ok()) return held;
  (void)served_.hold(before);
  return status;
}

absl::Status MapKeeper::Label(const OpenVolume& next, const std::vector<ChosenLun>& added) {
  for (const ChosenLun& one : added) {
    reel::Label label = LabelOf(next.descriptor, one.as.uuid);
    const auto flat = [&] {
      std::size_t index = 0;
      for (const Pool& pool : next.descriptor.pools) {
        for (const StripeSet& set : pool.sets) {
          for (const LunEntry& entry : set.luns) {
            if (entry.lun == one.as.uuid) return index;
            ++index;
          }
        }
      }
      return index;
    };
    Lun& lun = *next.luns[flat()];
    label.generation = one.as.label_generation + 2;
    label.size_bytes = lun.size_bytes();
    absl::Status status = Persist([&] {
      if (absl::Status may = served_.may_write(); !may.ok()) return may;
      if (absl::Status s = PrepareNewLun(lun, one.as); !s.ok()) return s;
      return WriteLabel(lun, label);
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status MapKeeper::WriteSeat(const OpenVolume& next) {
  absl::Status status =
      Persist([&] { return WriteDescriptor(next.seat_lun(), next.descriptor, served_.may_write); });
  if (status.ok()) return status;
  status =
      absl::Status(status.code(),
                   absl::StrCat("volume ", next.descriptor.name,
                                ": whether its map has changed is not known: ", status.message()));
  served_.fail(status);
  return status;
}

void MapKeeper::WriteCopies(const OpenVolume& next) {
  std::string alarm;
  std::set<const Lun*> done{&next.seat_lun()};
  for (const auto& lun : next.luns) {
    if (!done.insert(lun.get()).second) continue;
    const absl::Status status =
        Persist([&] { return WriteDescriptor(*lun, next.descriptor, served_.may_write); });
    if (status.ok()) continue;
    alarm =
        absl::StrCat(lun->name(), ": its copy of the volume's map is behind: ", status.message(),
                     "; it is written at the next change, or start");
    spdlog::error("volume {}: {}", next.descriptor.name, alarm);
  }
  MutexLock lock(mutex_);
  alarm_ = std::move(alarm);
}

void MapKeeper::Relabel(const OpenVolume& next, bool grown) {
  std::set<const Lun*> done;
  for (const auto& lun : next.luns) {
    if (!done.insert(lun.get()).second) continue;
    const auto reading = ReadLabel(*lun);
    if (!reading.ok()) continue;
    reel::Label label = LabelOf(next.descriptor, reading->label.lun);
    label.generation = reading->label.generation;
    label.size_bytes =
        grown ? std::max(lun->size_bytes(), reading->label.size_bytes) : reading->label.size_bytes;
    if (label.volume != next.descriptor.volume || label == reading->label) continue;
    ++label.generation;
    const absl::Status status = Persist([&] {
      const absl::Status may = served_.may_write();
      return may.ok() ? WriteLabel(*lun, label) : may;
    });
    if (!status.ok()) {
      spdlog::warn("volume {}: {}: its label is behind: {}", next.descriptor.name, lun->name(),
                   std::string(status.message()));
    }
  }
}

void MapKeeper::Unlabel(const OpenVolume& before, const OpenVolume& next) {
  std::set<const Lun*> done;
  for (const auto& lun : next.luns) done.insert(lun.get());
  for (const auto& lun : before.luns) {
    if (!done.insert(lun.get()).second) continue;
    absl::Status status = Persist([&]() -> absl::Status {
      const auto reading = ReadLabel(*lun);
      if (!reading.ok()) return reading.status();
      if (reading->label.volume != next.descriptor.volume) return absl::OkStatus();
      if (absl::Status may = served_.may_write(); !may.ok()) return may;
      return WriteLabel(*lun, {.lun = reading->label.lun,
                               .name = reading->label.name,
                               .volume = {},
                               .generation = reading->label.generation + 1,
                               .size_bytes = reading->label.size_bytes});
    });
    spdlog::info("volume {}: {} has been removed", next.descriptor.name, lun->name());
    if (status.ok()) continue;
    spdlog::warn("volume {}: {}: its label still names the volume: {}; clear it with reel-label",
                 next.descriptor.name, lun->name(), std::string(status.message()));
  }
}

absl::Status MapKeeper::Persist(const std::function<absl::Status()>& once) const {
  for (std::uint32_t tries = 0;; ++tries) {
    absl::Status status = once();
    const LunFault fault = FaultOf(status);
    const bool passes = fault == LunFault::kBusy || fault == LunFault::kAborted;
    if (!passes || tries >= kTries) return status;
    SleepFor(std::chrono::milliseconds(LunBusyPauseMs(tries)));
  }
}

}  // namespace reel::mdc
