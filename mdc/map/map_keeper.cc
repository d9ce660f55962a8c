#include "mdc/map/map_keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/map/map_change.h"
#include "mdc/space/areas.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

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
    labels_.Relabel(served_.maps.now(), /*grown=*/false);
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
  if (request.has_grow()) labels_.Relabel(served_.maps.now(), /*grown=*/true);
  spdlog::info("volume {}: {}", map->name, TextOf(request));
  v1::ChangeMapReply reply;
  reply.set_map_generation(map->generation);
  reply.set_added_bytes(SizeOf(*map) - SizeOf(before.descriptor));
  return reply;
}

void MapKeeper::Restripe(const RestripeOrder& order,
                         std::function<void(const absl::Status&)> done) {
  Add([this, order, done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoRestripe(order) : may);
  });
}

absl::Status MapKeeper::DoRestripe(RestripeOrder order) {
  OpenVolume& before = served_.maps.now();
  std::vector<ChosenLun> added;
  OpenLuns opened;
  if (auto& instead = order.to.instead) {
    instead->lun = LunNamed(before.descriptor, instead->name);
    if (instead->lun.is_nil()) {
      auto chosen = ChooseReplacement(before, *instead, order.to.without_lun);
      if (!chosen.ok()) return chosen.status();
      auto path = OpenLun(chosen->name, LunAccess::kReadWrite);
      if (!path.ok()) return path.status();
      instead->lun = chosen->as.uuid;
      opened.emplace(instead->lun, NamedLun{*std::move(path), chosen->name});
      added.push_back(*std::move(chosen));
    }
  }
  const auto map = Restriped(before.descriptor, order);
  return map.ok() ? Install(before, *map, std::move(opened), added) : map.status();
}

absl::StatusOr<ChosenLun> MapKeeper::ChooseReplacement(const OpenVolume& volume,
                                                       const Replacement& instead,
                                                       const std::string& old) {
  const std::vector<std::string> luns{instead.path};
  const std::vector<std::string> force = instead.force ? luns : std::vector<std::string>();
  auto chosen = ChooseNewLuns(volume, {luns, force, served_.patterns});
  if (!chosen.ok()) return chosen.status();
  ChosenLun& lun = chosen->front();
  if (absl::Status s = CheckReplacement(volume.descriptor, old, lun.facts); !s.ok()) return s;
  if (instead.name.empty() || instead.name == lun.as.name) return std::move(lun);
  return absl::FailedPreconditionError(absl::StrCat("LUN ", lun.facts.path, " was ", instead.name,
                                                    " when the job began, and is ", lun.as.name));
}

void MapKeeper::Replace(v1::StartJobRequest request, Done<Core::ChangedJob> done) {
  Add([this, request = std::move(request), done = std::move(done)](const absl::Status& may) {
    done(may.ok() ? DoReplace(request) : absl::StatusOr<Core::ChangedJob>(may));
  });
}

absl::StatusOr<Core::ChangedJob> MapKeeper::DoReplace(const v1::StartJobRequest& request) {
  const bool force = std::ranges::find(request.force(), request.with()) != request.force().end();
  Replacement instead{.name = "", .path = LunNameForPeople(request.with()), .force = force};
  const auto chosen = ChooseReplacement(served_.maps.now(), instead, request.lun());
  if (!chosen.ok()) return chosen.status();
  instead.name = chosen->as.name;
  return AskCore<Core::ChangedJob>(served_.run_on_core,
                                   [&](Core& core) { return core.StartJob(request, instead); });
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
  labels_.Relabel(next, /*grown=*/false);
  labels_.Unlabel(before, next);
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
  if (status.ok()) status = labels_.Label(next, added);
  if (status.ok()) return held;
  (void)served_.hold(before);
  return status;
}

absl::Status MapKeeper::WriteSeat(const OpenVolume& next) {
  absl::Status status = WriteToLun(
      [&] { return WriteDescriptor(next.seat_lun(), next.descriptor, served_.may_write); });
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
        WriteToLun([&] { return WriteDescriptor(*lun, next.descriptor, served_.may_write); });
    if (status.ok()) continue;
    alarm =
        absl::StrCat(lun->name(), ": its copy of the volume's map is behind: ", status.message(),
                     "; it is written at the next change, or start");
    spdlog::error("volume {}: {}", next.descriptor.name, alarm);
  }
  MutexLock lock(mutex_);
  alarm_ = std::move(alarm);
}

}  // namespace reel::mdc
