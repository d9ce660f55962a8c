#include "mdc/serve/volume_server.h"

#include <algorithm>
#include <chrono>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kTickMs = 50;
constexpr int kReaders = 4;
// Outputs are delivered at least after so many events, so that the first of a burst need not wait
// for the last of it.
constexpr std::size_t kEventsPerDelivery = 32;
// A frame is closed at this size, well below the transport's limit of 4 MiB.
constexpr std::size_t kFrameBytes = 256 * kKiB;
// What one fetch of a scan brings into memory.
constexpr std::size_t kScanEntries = 4096;
constexpr std::size_t kScanBytes = 1 * kMiB;

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

std::string WordOf(const SeatFarewell& farewell) {
  if (farewell.stopped) return "an administrator has stopped it";
  return farewell.state == ArbitrationBlock::State::kOffered ? "its controller hands it over"
                                                             : "its controller is stopping";
}

}  // namespace

VolumeServer::VolumeServer(VolumeServerOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  if (!options_.on_seat_lost) options_.on_seat_lost = options_.on_failure;
}

absl::StatusOr<std::unique_ptr<VolumeServer>> VolumeServer::Open(VolumeServerOptions options,
                                                                 Office& office,
                                                                 const Clock& clock) {
  auto server = absl::WrapUnique(new VolumeServer(std::move(options), clock));
  server->volume_ = std::move(office.volume);
  server->seat_ = std::move(office.seat);
  if (absl::Status s = server->OpenStore(std::move(office.fencer)); !s.ok()) {
    server->core_.reset();
    server->store_.reset();
    office.volume = std::move(server->volume_);
    office.seat = std::move(server->seat_);
    return s;
  }
  server->StartThreads();
  return server;
}

absl::Status VolumeServer::OpenStore(std::unique_ptr<Fencer> fencer) {
  for (const std::string& warning : volume_->warnings) {
    spdlog::warn("volume {}: {}", options_.volume, warning);
  }
  options_.core.reservations = fencer->any();
  options_.core.keyless_quarantine_ms = fencer->keyless_quarantine_ms();
  options_.core.epoch = seat_->epoch();
  maintenance_ = options_.core.maintenance = seat_->maintenance();
  StoreOptions store_options;
  store_options.cache_bytes = options_.cache_bytes;
  store_options.epoch = seat_->epoch();
  store_options.may_write = [this] { return CheckTerm(); };
  auto store = Store::Open(*volume_, store_options);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  auto core = Core::Start(store_->db(), volume_->descriptor, clock_, options_.core);
  if (!core.ok()) return core.status();
  core_ = *std::move(core);
  keeper_ = std::make_unique<StoreKeeper>(*store_, *core_, volume_->descriptor, clock_,
                                          options_.free_store_bytes);
  v1::StatReply stat;
  core_->Describe(stat);
  epoch_ = Epoch(stat.epoch());
  return StartFencing(std::move(fencer));
}

void VolumeServer::StartThreads() {
  core_thread_ = Thread([this] { CoreMain(); });
  workers_.emplace_back([this] { CommitMain(); });
  for (int i = 0; i < kReaders; ++i) workers_.emplace_back([this] { ReaderMain(); });
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
    if (stopping_ && !when_stopping) return false;
    // (What is in the queue before stopping_ is set, the resident does before it goes.)
    queue_.push_back(std::move(event));
    if (core_busy_ || resident_wants_) return true;
    core_busy_ = true;
  }
  RunBatch();
  MutexLock lock(queue_mutex_);
  core_busy_ = false;
  // A visitor has its own work to go back to: what came meanwhile is for the resident.
  if (!queue_.empty()) resident_wants_ = true;
  if (resident_wants_) queue_changed_.NotifyOne();
  return true;
}

StreamId VolumeServer::AddStream(std::shared_ptr<StreamPeer> peer, std::string certificate) {
  const StreamId stream(++next_stream_);
  Queue(Opened{stream, std::move(peer), std::move(certificate)});
  return stream;
}

void VolumeServer::Post(StreamId stream, v1::ClientFrame frame) {
  Queue(Arrived{stream, std::move(frame)});
}

void VolumeServer::StreamEnded(StreamId stream) {
  Queue(Ended{stream});
}

// The resident ticks, and takes over when there is more than a visitor's one batch.
void VolumeServer::CoreMain() {
  std::uint64_t next_tick_ms = clock_.NowMs();
  for (;;) {
    {
      MutexLock lock(queue_mutex_);
      for (std::uint64_t now_ms = clock_.NowMs();
           !resident_wants_ && !stopping_ && now_ms < next_tick_ms; now_ms = clock_.NowMs()) {
        queue_changed_.WaitFor(queue_mutex_, std::chrono::milliseconds(next_tick_ms - now_ms));
      }
      resident_wants_ = true;
      while (core_busy_) queue_changed_.Wait(queue_mutex_);
      core_busy_ = true;
      resident_wants_ = false;
    }
    bool more = true;
    while (more) {
      more = RunBatch();
      // Behind the events, so that a renewal that waited in the queue counts before leases are
      // judged.
      if (clock_.NowMs() >= next_tick_ms) {
        core_->OnTick();
        seat_->Progress();
        WatchSpace();
        Deliver();
        next_tick_ms = clock_.NowMs() + kTickMs;
      }
    }
    MutexLock lock(queue_mutex_);
    if (stopping_ && queue_.empty()) break;  // and keeps the seat: nothing runs any more
    core_busy_ = false;
    // Who came after the last look found the seat taken, and left it to its holder.
    if (!queue_.empty()) resident_wants_ = true;
  }
  core_->EndFetches();
  if (core_->health().ok()) {
    core_->SayFarewell(WordOf(farewell_), farewell_.stopped);
    Deliver();
  }
  for (auto& [stream, outgoing] : streams_) outgoing.peer->End();
  streams_.clear();
}

bool VolumeServer::RunBatch() {
  std::vector<Event> events;
  {
    MutexLock lock(queue_mutex_);
    events.swap(queue_);
  }
  if (!core_->health().ok()) {
    Drop(events);
    return false;
  }
  std::size_t undelivered = 0;
  for (Event& event : events) {
    Handle(std::move(event));
    if (++undelivered == kEventsPerDelivery) {
      WatchSpace();
      Deliver();
      undelivered = 0;
    }
  }
  WatchSpace();
  Deliver();
  if (!core_->health().ok()) Fail(core_->health());
  MutexLock lock(queue_mutex_);
  return !queue_.empty();
}

void VolumeServer::Handle(Event event) {
  std::visit(Overloaded{
                 [&](Opened& opened) {
                   core_->OnStreamOpened(opened.stream, std::move(opened.certificate));
                   streams_.try_emplace(opened.stream, Outgoing{std::move(opened.peer), {}});
                 },
                 [&](Arrived& arrived) {
                   const int count = arrived.frame.requests_size();
                   for (v1::Request& request : *arrived.frame.mutable_requests()) {
                     core_->OnRequest(arrived.stream, std::move(request));
                   }
                   const auto peer = streams_.find(arrived.stream);
                   if (peer != streams_.end()) {
                     peer->second.peer->Taken(static_cast<std::size_t>(count));
                   }
                 },
                 [&](Ended& ended) {
                   streams_.erase(ended.stream);
                   core_->OnStreamEnded(ended.stream);
                 },
                 [&](Durable& durable) {
                   core_->OnDurable(durable.sequence);
                   if (const auto region = keeper_->OnDurable(durable.sequence)) {
                     DoLater([this, run = *region] { Queue(RegionAdded{store_->AddRegion(run)}); });
                   }
                 },
                 [&](Fetched& fetched) { core_->OnFetched(fetched.ticket); },
                 [&](RegionAdded& added) { keeper_->OnRegionAdded(added.outcome); },
                 [&](Compacted& compacted) { OnCompacted(compacted.outcome); },
                 [&](Action& action) { action.run(*core_); },
             },
             event);
}

void VolumeServer::Deliver() {
  CoreOutputs outputs = core_->TakeOutputs();
  if (!HoldsSeat()) return;
  if (outputs.wants_sync || !outputs.fetches.empty()) {
    MutexLock lock(work_mutex_);
    if (outputs.wants_sync) {
      wants_sync_ = true;
      sync_wanted_.NotifyOne();
    }
    for (CoreOutputs::Fetch& fetch : outputs.fetches) {
      jobs_.push_back([this, fetch = std::move(fetch)] {
        Fetch(fetch.miss);
        Queue(Fetched{fetch.ticket});
      });
      job_wanted_.NotifyOne();
    }
  }
  FenceAndGiveWay(outputs);
  std::vector<StreamId> touched;
  for (CoreOutputs::Send& send : outputs.sends) {
    const auto found = streams_.find(send.stream);
    if (found == streams_.end()) continue;
    Outgoing& outgoing = found->second;
    if (outgoing.bytes == 0) touched.push_back(send.stream);
    if (auto* reply = std::get_if<v1::Reply>(&send.message)) {
      outgoing.bytes += reply->ByteSizeLong() + 8;
      *outgoing.frame.add_replies() = std::move(*reply);
    } else {
      auto& callback = std::get<v1::Callback>(send.message);
      outgoing.bytes += callback.ByteSizeLong() + 8;
      *outgoing.frame.add_callbacks() = std::move(callback);
    }
    if (outgoing.bytes >= kFrameBytes) Flush(outgoing);
  }
  for (const StreamId stream : touched) Flush(streams_.at(stream));
  for (const StreamId stream : outputs.ends) {
    const auto found = streams_.find(stream);
    if (found != streams_.end()) found->second.peer->End();
  }
}

void VolumeServer::Flush(Outgoing& outgoing) {
  if (outgoing.bytes == 0) return;
  wire_.bytes_out += outgoing.bytes;
  wire_.messages_out +=
      static_cast<std::uint64_t>(outgoing.frame.replies_size() + outgoing.frame.callbacks_size());
  outgoing.peer->Send(std::exchange(outgoing.frame, {}));
  outgoing.bytes = 0;
}

void VolumeServer::CommitMain() {
  for (;;) {
    {
      MutexLock lock(work_mutex_);
      while (!wants_sync_ && !workers_stop_) sync_wanted_.Wait(work_mutex_);
      if (!wants_sync_) return;
      wants_sync_ = false;
    }
    if (!HoldsSeat()) return;
    auto durable = store_->db().Sync();
    if (!durable.ok()) return Fail(durable.status());
    ++syncs_;
    Queue(Durable{*durable});
  }
}

void VolumeServer::ReaderMain() {
  for (;;) {
    std::function<void()> job;
    {
      MutexLock lock(work_mutex_);
      while (jobs_.empty() && !workers_stop_) job_wanted_.Wait(work_mutex_);
      if (workers_stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

// Its only effect is that the key is in memory afterwards; an error is found again by who reads it
// there.
void VolumeServer::Fetch(const Miss& miss) const {
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

void VolumeServer::DoLater(std::function<void()> job) {
  MutexLock lock(work_mutex_);
  jobs_.push_back(std::move(job));
  job_wanted_.NotifyOne();
}

void VolumeServer::WatchSpace() {
  if (!keeper_->Watch()) return;
  DoLater([this] { Queue(Compacted{store_->db().Compact(compaction_cancelled_)}); });
}

void VolumeServer::OnCompacted(const absl::Status& outcome) {
  keeper_->OnCompacted(outcome);
  if (!outcome.ok() && !absl::IsCancelled(outcome) && !absl::IsResourceExhausted(outcome)) {
    Fail(outcome);
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
  std::size_t next = 0;
  for (v1::ShowReply::Pool& pool : *reply.mutable_pools()) {
    for (v1::ShowReply::Lun& entry : *pool.mutable_luns()) {
      if (next >= volume_->luns.size()) return;
      const Lun& lun = *volume_->luns[next++];
      entry.set_path(lun.name());
      entry.set_size_bytes(lun.size_bytes());
      entry.set_reservations(lun.has_reservations());
    }
  }
  DescribeStore(reply);
  DescribeFencing(reply);
}

void VolumeServer::Complete(v1::StatReply& reply) const {
  const auto add = [&](std::string name, std::uint64_t value) {
    v1::StatReply::Counter& counter = *reply.add_counters();
    counter.set_name(std::move(name));
    counter.set_value(value);
  };
  add("commit.syncs", syncs_);
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

absl::Status VolumeServer::Stop(const SeatFarewell& farewell) {
  farewell_ = farewell;
  {
    MutexLock lock(queue_mutex_);
    stopping_ = true;
    queue_changed_.NotifyOne();
  }
  core_thread_.Join();
  seat_->AllowLong();
  v1::WhoReply who;
  core_->Describe(who);
  compaction_cancelled_ = true;
  {
    MutexLock lock(work_mutex_);
    workers_stop_ = true;
    sync_wanted_.NotifyAll();
    job_wanted_.NotifyAll();
  }
  for (Thread& worker : workers_) worker.Join();
  workers_.clear();
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
