#include "mdc/serve/volume_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "mdc/base/alarm.h"
#include "proto/convert.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

constexpr int kReaders = 4;
// What one fetch of a scan brings into memory.
constexpr std::size_t kScanEntries = 4096;
constexpr std::size_t kScanBytes = 1 * kMiB;

// Of a job that may be dropped: what is done then instead.
class LookTurn {
 public:
  explicit LookTurn(std::function<void()> otherwise) : otherwise_(std::move(otherwise)) {}
  ~LookTurn() {
    if (otherwise_) otherwise_();
  }
  LookTurn(const LookTurn&) = delete;
  LookTurn& operator=(const LookTurn&) = delete;
  void Comes() { otherwise_ = nullptr; }

 private:
  std::function<void()> otherwise_;
};

}  // namespace

VolumeServer::VolumeServer(VolumeServerOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  if (!options_.on_seat_lost) options_.on_seat_lost = options_.on_failure;
}

absl::StatusOr<std::unique_ptr<VolumeServer>> VolumeServer::Open(VolumeServerOptions options,
                                                                 ServingSeat& serving,
                                                                 const Clock& clock) {
  auto server = absl::WrapUnique(new VolumeServer(std::move(options), clock));
  server->maps_ = std::make_unique<VolumeMaps>(std::move(serving.volume));
  server->seat_ = std::move(serving.seat);
  server->taken_over_ = {serving.began, std::move(serving.parts)};
  if (absl::Status s = server->OpenStore(std::move(serving.fencer), serving.answers_over_ms);
      !s.ok()) {
    server->lun_work_ = {};
    server->core_.reset();
    server->store_.reset();
    serving.volume = server->maps_->TakeBack();
    serving.seat = std::move(server->seat_);
    return s;
  }
  server->StartThreads();
  return server;
}

absl::Status VolumeServer::OpenStore(std::unique_ptr<Fencer> fencer,
                                     std::uint64_t answers_over_ms) {
  for (const std::string& warning : volume().warnings) {
    spdlog::warn("volume {}: {}", options_.volume, warning);
  }
  options_.core.reservations = fencer->any();
  options_.core.keyless_quarantine_ms = fencer->keyless_quarantine_ms();
  options_.core.epoch = seat_->epoch();
  options_.core.quota_notices = !options_.quota_hook.empty();
  maintenance_ = options_.core.maintenance = seat_->maintenance();
  if (options_.exports != nullptr) options_.core.exports = options_.exports->Get();
  StoreOptions store_options;
  store_options.cache_bytes = options_.cache_bytes;
  store_options.epoch = seat_->epoch();
  store_options.may_write = [this] { return CheckTerm(); };
  store_options.before_change = [this, answers_over_ms] {
    const std::uint64_t now_ms = clock_.NowMs();
    if (now_ms < answers_over_ms) SleepFor(std::chrono::milliseconds(answers_over_ms - now_ms));
  };
  PhaseTimes phases(clock_);
  auto store = Store::Open(volume(), store_options);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  phases.Ended("recovery");
  auto core = Core::Start(store_->db(), volume().descriptor, clock_, options_.core);
  if (!core.ok()) return core.status();
  core_ = *std::move(core);
  phases.Ended("load");
  keeper_ = std::make_unique<StoreKeeper>(*store_, *core_, volume().descriptor, clock_,
                                          options_.free_store_bytes);
  v1::StatReply stat;
  core_->Describe(stat);
  epoch_ = Epoch(stat.epoch());
  MakeKeepers();
  absl::Status swept = StartFencing(std::move(fencer));
  phases.Ended("keys");
  spdlog::info("volume {}: open in {}", options_.volume, phases.Text());
  auto& parts = taken_over_.parts;
  parts.insert(parts.end(), phases.parts().begin(), phases.parts().end());
  return swept;
}

void VolumeServer::MakeKeepers() {
  const auto may_write = [this] { return CheckTerm(); };
  const auto run_on_core = [this](std::function<void(Core&)> action,
                                  std::function<void()> otherwise) {
    return RunOnCore(std::move(action), std::move(otherwise));
  };
  lun_work_.dumps =
      std::make_unique<DumpKeeper>(DumpKeeper::Served{.maps = *maps_,
                                                      .db = store_->db(),
                                                      .fs = store_->fs(),
                                                      .epoch = epoch_,
                                                      .lease_ms = options_.core.session_lease_ms,
                                                      .may_write = may_write,
                                                      .run_on_core = run_on_core});
  lun_work_.map = std::make_unique<MapKeeper>(
      MapKeeper::Served{.maps = *maps_,
                        .patterns = options_.luns,
                        .may_write = may_write,
                        .hold = [this](OpenVolume& map) { return fencing_->TakeMap(map); },
                        .changed = [this] { OnNewMap(); },
                        .run_on_core = run_on_core,
                        .fail = [this](const absl::Status& status) { EndWith(status); }});
  lun_work_.quota_hook = std::make_unique<QuotaHook>(options_.volume, options_.quota_hook, clock_);
  lun_work_.scrubber = std::make_unique<Scrubber>(Scrubber::Served{
      .db = store_->db(),
      .fs = store_->fs(),
      .clock = clock_,
      .most_bytes = options_.scrub_bytes,
      .regions =
          [this] { return keeper_->grows() ? std::nullopt : std::optional(store_->regions()); },
      .run_on_core = run_on_core});
}

void VolumeServer::StartThreads() {
  WatchLuns();
  const bool any_dumps = core_->valid_dumps().any();
  lun_work_.mover = std::make_unique<BlockMover>(
      *maps_, [this] { return CheckTerm(); },
      [this](CopyId copy, const absl::Status& outcome, bool may_land) {
        RunOnCore([=](Core& core) { core.OnCopied(copy, outcome, may_land); });
      });
  core_thread_ = Thread([this] { CoreMain(); });
  workers_.Start([this] { return Commit(); }, kReaders);
  if (any_dumps) lun_work_.dumps->MarkAgain();
  if (!volume().warnings.empty()) lun_work_.map->CatchUp();
  TakeOwnPool();
}

VolumeServer::~VolumeServer() {
  if (core_thread_.joinable()) {
    if (absl::Status s = Stop(); !s.ok()) {
      spdlog::error("volume {}: {}", options_.volume, std::string(s.message()));
    }
  }
}

// Who brings an event to an idle core runs it there and then: two changes of threads less in every
// round trip.
bool VolumeServer::Queue(Event event, bool when_stopping) {
  {
    MutexLock lock(queue_mutex_);
    if (turns_.stopping() && !when_stopping) return false;
    // (What is in the queue before the turns stop, the resident does before it goes.)
    queue_.push_back(std::move(event));
    if (!turns_.Visit()) return true;
  }
  RunBatch();
  MutexLock lock(queue_mutex_);
  // A visitor has its own work to go back to: what came meanwhile is for the resident.
  turns_.Leave(/*more=*/!queue_.empty());
  if (turns_.wanted()) queue_changed_.NotifyOne();
  return true;
}

StreamId VolumeServer::AddStream(std::shared_ptr<StreamPeer> peer, std::string certificate) {
  const StreamId stream(++next_stream_);
  Queue(Opened{stream, std::move(peer), std::move(certificate)});
  return stream;
}

void VolumeServer::Post(StreamId stream, v1::ClientFrame frame) {
  Queue(Arrived{stream, std::move(frame), NowUs()});
}

void VolumeServer::StreamEnded(StreamId stream) {
  Queue(Ended{stream});
}

bool VolumeServer::Commit() {
  if (!HoldsSeat()) return false;
  auto durable = store_->db().Sync();
  if (!durable.ok()) {
    Fail(durable.status());
    return false;
  }
  Queue(Durable{*durable});
  return true;
}

// Its only effect is that the key is in memory afterwards; an error is found again by who reads it
// there.
void VolumeServer::Fetch(const Miss& miss) const {
  for (const Miss& other : miss.also) Fetch(other);
  if (!miss.scan) {
    std::string value;
    (void)store_->db().Get(miss.key, &value, Tier::kAll);
    return;
  }
  std::size_t entries = 0, bytes = 0;
  auto cursor = store_->db().Scan(miss.prefix, miss.key, Tier::kAll, miss.from);
  for (; cursor->Valid() && entries < kScanEntries && bytes < kScanBytes; cursor->Next()) {
    ++entries;
    bytes += cursor->key().size() + cursor->value().size();
  }
}

void VolumeServer::EndWith(const absl::Status& status) {
  if (!failed_.exchange(true)) options_.on_failure(status);
}

void VolumeServer::Fail(const absl::Status& status) {
  EndWith(absl::Status(status.code(),
                       absl::StrCat("volume ", options_.volume,
                                    ": the metadata store failed, and whether its last commit is "
                                    "durable is decided by recovery at the next start: ",
                                    status.message())));
}

void VolumeServer::Complete(v1::ShowReply& reply) const {
  const auto watched = watches();
  const OpenVolume& map = watched->volume;
  std::size_t next = 0;
  for (v1::ShowReply::Pool& pool : *reply.mutable_pools()) {
    for (v1::ShowReply::Lun& entry : *pool.mutable_luns()) {
      if (next >= map.luns.size()) break;
      entry.set_size_bytes(watched->sizes.SizeOf(next));
      const Lun& lun = *map.luns[next++];
      entry.set_path(lun.name());
      entry.set_reservations(lun.has_reservations());
    }
  }
  DescribeStore(reply);
  // Of one that was removed there is nothing to say.
  auto& pools = *reply.mutable_pools();
  pools.erase(std::remove_if(pools.begin(), pools.end(),
                             [](const v1::ShowReply::Pool& pool) { return pool.luns().empty(); }),
              pools.end());
  DescribeFencing(reply);
  if (std::string alarm = lun_work_.dumps->Alarm(); !alarm.empty())
    AddAlarm(reply, v1::ALARM_DUMP_NOT_VALID, std::move(alarm));
  if (std::string alarm = lun_work_.map->Alarm(); !alarm.empty())
    AddAlarm(reply, v1::ALARM_MAP_COPY_BEHIND, std::move(alarm));
  const auto add_all = [&reply](v1::AlarmKind kind, std::vector<std::string> texts) {
    for (std::string& text : texts) AddAlarm(reply, kind, std::move(text));
  };
  add_all(v1::ALARM_STORE_SPACE_LOW, keeper_->Alarms());
  add_all(v1::ALARM_PORTAL_LOST, watched->portals.Lost());
  add_all(v1::ALARM_LUN_CUT, watched->sizes.Cut());
  for (std::string& grown : watched->sizes.Grown()) reply.add_notes(std::move(grown));
}

void VolumeServer::Complete(v1::FreeReply& reply) const {
  const metafs::MetaFs& fs = store_->fs();
  reply.set_store_bytes(fs.SizeBytes());
  reply.set_store_free_bytes(std::min(fs.FreeBytes(), fs.SizeBytes()));
}

void VolumeServer::Complete(v1::StatReply& reply) const {
  const auto add = [&](std::string name, std::uint64_t value) {
    v1::StatReply::Counter& counter = *reply.add_counters();
    counter.set_name(std::move(name));
    counter.set_value(value);
  };
  DescribeTakeover(reply);
  streams_.times.Describe(reply);
  const TimeHistogram beats = seat_->Beats();
  reply.mutable_beats()->set_sum_us(beats.sum_us);
  reply.mutable_beats()->mutable_counts()->Assign(beats.counts.begin(), beats.counts.end());
  add("commit.syncs", workers_.commits());
  add("wire.bytes_in", wire_.bytes_in);
  add("wire.bytes_out", wire_.bytes_out);
  add("wire.messages_in", wire_.messages_in);
  add("wire.messages_out", wire_.messages_out);
  for (const auto& [name, value] : store_->db().Counters()) {
    add(absl::StrCat("store.", name), value);
  }
  std::sort(reply.mutable_counters()->begin(), reply.mutable_counters()->end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
}

// What the core says of it comes last.
void VolumeServer::DescribeTakeover(v1::StatReply& reply) const {
  *reply.mutable_taken_over() = ToProto(taken_over_.began);
  const auto of_core = std::exchange(*reply.mutable_takeover(), {});
  for (const PhaseTimes::Part& part : taken_over_.parts) {
    v1::StatReply::Phase& phase = *reply.add_takeover();
    phase.set_name(part.what);
    phase.set_ms(part.ms);
  }
  reply.mutable_takeover()->MergeFrom(of_core);
}

void VolumeServer::LookUp(std::function<void(FileLookup&)> look, std::function<void()> otherwise) {
  auto turn = std::make_shared<LookTurn>(std::move(otherwise));
  workers_.Add([this, turn = std::move(turn), look = std::move(look)] {
    turn->Comes();
    FileLookup lookup(store_->db(), volume().descriptor);
    look(lookup);
  });
}

absl::Status VolumeServer::Measure(const Core& core, const v1::MeasureRequest& request,
                                   v1::MeasureReply& reply) {
  if (request.begin() == v1::MeasureRequest::COLLECT) {
    if (!streams_.measured.on()) {
      return absl::FailedPreconditionError("nothing is being measured, or not any more");
    }
    streams_.measured.Describe(NowUs(), reply);
    return absl::OkStatus();
  }
  std::vector<Core::Connected> targets = core.connected();
  if (request.session() != 0) {
    std::erase_if(targets, [&](const Core::Connected& target) {
      return target.session != SessionId(request.session());
    });
    if (targets.empty()) {
      return absl::NotFoundError(absl::StrCat("session ", request.session(),
                                              " is not connected; \"who\" lists those that are"));
    }
  }
  streams_.measured.Begin(request.begin(), std::move(targets), NowUs());
  return absl::OkStatus();
}

absl::Status VolumeServer::Stop(const SeatFarewell& farewell) {
  lun_work_.scrubber->Stop();
  lun_work_.quota_hook->Stop();
  lun_work_.dumps->Stop();
  lun_work_.map->Stop();
  lun_work_.mover->Stop();
  farewell_ = farewell;
  {
    MutexLock lock(queue_mutex_);
    turns_.Stop();
    queue_changed_.NotifyOne();
  }
  core_thread_.Join();
  seat_->AllowLong();
  v1::WhoReply who;
  core_->Describe(who);
  compaction_cancelled_ = true;
  workers_.Stop();
  absl::Status status = core_->PrepareStop();
  if (status.ok()) status = store_->db().Sync().status();
  core_.reset();
  store_.reset();
  if (!status.ok()) {
    seat_->Abandon();
  } else if (absl::Status given = seat_->GiveUp(farewell); !given.ok()) {
    spdlog::warn("volume {}: the next controller waits for the end of this one's term: {}",
                 options_.volume, std::string(given.message()));
  }
  // While there are sessions the reservation stays, and keeps those out that were fenced.
  const bool leave = status.ok() && who.sessions().empty();
  fencing_->Stop(leave ? [](Fencer& fencer) { fencer.Leave(); } : FenceThread::Action());
  return status;
}

}  // namespace reel::mdc
