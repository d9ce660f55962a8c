#include "tests/sim/daemon.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/moves/job_table.h"
#include "tests/sim/heap.h"
#include "tests/sim/meta_store.h"

namespace reel::sim {
namespace {

constexpr std::size_t kLoggedBytes = 400;
// Of the first process; each has a host of its own. Below are the clients'.
constexpr int kFirstHost = 60;
int g_last_host = kFirstHost;

}  // namespace

// A client's stream, as the server sees it.
class Daemon::Peer final : public mdc::StreamPeer {
 public:
  Peer(Daemon& daemon, std::uint64_t stream) : daemon_(daemon), stream_(stream) {}
  void Send(v1::ServerFrame frame) override {
    daemon_.options_.on_answer(daemon_.process_->server->epoch());
    for (const v1::Reply& reply : frame.replies()) daemon_.Log("reply", stream_, reply);
    for (const v1::Callback& callback : frame.callbacks()) {
      daemon_.Log("callback", stream_, callback);
    }
    daemon_.network_.Send(stream_, std::move(frame));
  }
  void End() override { daemon_.network_.End(stream_); }
  void Taken(std::size_t) override {}

 private:
  Daemon& daemon_;
  const std::uint64_t stream_;
};

Daemon::Daemon(Scheduler& scheduler, Network& network, Options options)
    : scheduler_(scheduler), network_(network), options_(std::move(options)) {
  fault_rates_.controller = true;
  fault_rates_.refusals = &totals_.refused_writes;
  network_.AddServer(options_.address, this);
}

// ---- its process ------------------------------------------------------------------------------

mdc::SeatOptions Daemon::SeatOptions(const Process& process) const {
  mdc::SeatOptions seat;
  seat.machine.bytes[0] = static_cast<std::uint8_t>(options_.number);
  seat.host = absl::StrCat("mdc", options_.number);
  seat.address = options_.address;
  seat.seat_ms = options_.seat_ms;
  seat.protocol = process.Protocol();
  seat.claim_write_ms = options_.claim_write_ms;
  return seat;
}

mdc::VolumeServerOptions Daemon::ServerOptions(Process& process) {
  mdc::VolumeServerOptions options;
  options.volume = "reel";
  options.luns = options_.luns;
  options.core.session_lease_ms = process.session_lease_ms;
  options.core.slots = 4;
  options.core.protocol = process.Protocol();
  options.core.names = options_.names;
  options.core.shared_ms = 50;
  options.core.steps = options_.steps;
  options.core.small_file_bytes = options_.small_file_bytes;
  options.free_store_bytes = options_.free_store_bytes;
  options.on_failure = [this, &process](const absl::Status& status) {
    End(process, totals_.failures, status.ToString(), RestartDelay());
  };
  options.on_seat_lost = [this, &process](const absl::Status& status) {
    End(process, totals_.seats_lost, status.ToString(), RestartDelay());
  };
  options.on_seat_expired = [this, &process] {
    End(process, totals_.expiries, "the seat's term is over without a beat", RestartDelay());
  };
  return options;
}

void Daemon::Start() {
  if (process_ != nullptr || stopped_) return;
  ++starts_;
  ++totals_.starts;
  process_ = new Process(*this, ++g_last_host, options_, scheduler_, scheduler_.random());
  LunRack::Get().places[process_->host] = {&fault_rates_, options_.number};
  scheduler_.Spawn(process_->host, [this, process = process_] { Main(*process); });
  scheduler_.Spawn(process_->host, [this, process = process_] { HandleCalls(*process); });
}

// What reel-mdcd does.
void Daemon::Main(Process& process) {
  const mdc::SeatOptions seat = SeatOptions(process);
  process.role.SetHolder(seat.holder);
  auto candidate = mdc::Candidate::Open(ServerOptions(process), seat, process.role, process.clock,
                                        process.is_new ? &process.others : nullptr);
  if (!candidate.ok()) {
    End(process, totals_.refusals, candidate.status().ToString(), RestartDelay());
  }
  process.candidate = *std::move(candidate);
  auto server = process.candidate->Begin();
  process.listens = true;
  if (server.ok() && *server == nullptr) server = process.candidate->StandBy();
  if (!server.ok()) End(process, totals_.refusals, server.status().ToString(), RestartDelay());
  if (*server == nullptr) return;  // Stop goes on
  process.server = *std::move(server);
  ++totals_.epochs;
  if (process.candidate->took_early()) ++totals_.early;
  process.server->RunOnCore([&process](mdc::Core& core) { process.core = &core; });
  process.role.Serve(*process.server);
  if (options_.log) {
    const OtherHeap other_heap;
    options_.log(absl::StrCat("*** mdc", options_.number, " serves, in epoch ",
                              process.server->epoch().value()));
  }
}

Micros Daemon::RestartDelay() {
  return scheduler_.random().Between(kMs, scheduler_.random().OneIn(2) ? 20 * kMs : 800 * kMs);
}

void Daemon::End(Process& process, std::uint64_t& reason, const std::string& why, Micros down_for) {
  if (process_ == &process) {
    if (options_.log) {
      const OtherHeap other_heap;
      options_.log(absl::StrCat("*** mdc", options_.number, " ends: ", why));
    }
    ++reason;
    totals_ = totals();
    process_ = nullptr;
    paused_ = false;
    scheduler_.Kill(process.host);
    network_.CutAll(*this);
    scheduler_.After(down_for, [this, starts = starts_] {
      if (starts == starts_) Start();
    });
  }
  if (scheduler_.current_host() == process.host) scheduler_.Park(nullptr);
}

void Daemon::Kill(Micros down_for) {
  if (process_ != nullptr) End(*process_, totals_.kills, "killed", down_for);
}

void Daemon::Stop(bool offer, bool last) {
  stopped_ = stopped_ || last;
  Process* const process = process_;
  if (process == nullptr) return;
  totals_ = totals();
  process->core = nullptr;
  // Another one is at it: the process ends when that is done.
  while (process->stopping && process_ == process) scheduler_.Sleep(kMs);
  if (process_ != process) return;
  process->stopping = true;
  const auto done = std::make_shared<bool>(false);
  scheduler_.Spawn(process->host, [process, offer, done] {
    if (process->candidate != nullptr) process->candidate->Stop();
    if (process->server != nullptr) {
      (void)process->server->Stop(
          {.state = offer ? ArbitrationBlock::State::kOffered : ArbitrationBlock::State::kFree});
    }
    *done = true;
  });
  // It may end in the middle of that.
  while (!*done && process_ == process) scheduler_.Sleep(kMs);
  if (process_ == process) End(*process, totals_.kills, "stopped", RestartDelay());
}

void Daemon::Pause() {
  if (process_ == nullptr || paused_) return;
  paused_ = true;
  scheduler_.Pause(process_->host);
}

void Daemon::Resume() {
  if (std::exchange(paused_, false) && process_ != nullptr) scheduler_.Resume(process_->host);
}

void Daemon::HoldCore(Micros time) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [this, server = process_->server.get(), time] {
    server->RunOnCore([this, time](mdc::Core&) { scheduler_.Sleep(time); });
  });
}

void Daemon::StartJob(const v1::StartJobRequest& request) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [server = process_->server.get(), request] {
    if (!request.with().empty()) return server->map().Replace(request, [](const auto&) {});
    server->RunOnCore([request](mdc::Core& core) { (void)core.StartJob(request); });
  });
}

void Daemon::ChangeJobs(v1::JobState state) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [server = process_->server.get(), state] {
    server->RunOnCore([state](mdc::Core& core) {
      v1::JobsReply reply;
      core.Describe(reply);
      for (const auto& job : reply.jobs()) (void)core.ChangeJob(mdc::JobId(job.job()), state);
    });
  });
}

void Daemon::OpenPool(const std::string& pool) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [server = process_->server.get(), pool] {
    v1::CloseSpaceRequest request;
    request.set_pool(pool);
    server->map().CloseSpace(request, [](const auto&) {});
  });
}

void Daemon::ReadScrubs(Scrubs& scrubs) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [server = process_->server.get(), &scrubs] {
    server->RunOnCore([&scrubs](mdc::Core& core) {
      v1::JobsReply reply;
      core.Describe(reply);
      for (const auto& job : reply.jobs()) {
        const v1::JobRecord& record = job.record();
        if (record.kind() != v1::JOB_SCRUB || record.state() != v1::JOB_DONE) continue;
        const auto& lines = record.scrub().lines();
        scrubs[job.job()].assign(lines.begin(), lines.end());
      }
    });
  });
}

void Daemon::Evict(std::uint64_t session) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [server = process_->server.get(), session] {
    server->RunOnCore([session](mdc::Core& core) {
      (void)core.EvictSession(SessionId(session), "an administrator ended it");
    });
  });
}

void Daemon::Ask(std::shared_ptr<bool> answered) {
  if (!serves()) return;
  scheduler_.Spawn(process_->host, [server = process_->server.get(), answered] {
    server->RunOnCore([answered](mdc::Core&) { *answered = true; });
  });
}

bool Daemon::IsAboutToWrite() const {
  for (Disk* disk : LunRack::Get().disks) {
    if (process_ != nullptr && disk->held[process_->host] > 0) return true;
  }
  return false;
}

bool Daemon::Writes() const {
  if (process_ == nullptr) return false;
  if (IsAboutToWrite()) return true;
  const auto syncing = StoreEvents::Get().syncing.find(process_->host);
  if (syncing != StoreEvents::Get().syncing.end() && syncing->second > 0) return true;
  for (Disk* disk : LunRack::Get().disks) {
    for (const auto& flight : disk->flights()) {
      if (flight->host == process_->host) return true;
    }
  }
  return false;
}

// ---- the server of its address ----------------------------------------------------------------

client::MdcPlace Daemon::Where() const {
  const mdc::VolumeServer* server = process_->role.server();
  const mdc::VolumeRole::Active active = process_->role.active();
  return {.here = server != nullptr,
          .epoch = (server != nullptr ? server->epoch() : active.epoch).value(),
          .address = active.address};
}

void Daemon::AskToPromise(std::shared_ptr<mdc::PeerAnswer> answer, std::shared_ptr<bool> answered) {
  Call([process = process_, answer, answered] {
    mdc::VolumeServer* const server = process->role.server();
    mdc::PeerSaid said;
    if (server != nullptr) said = server->Promise();
    said.promise.holder = process->role.holder();
    if (process->is_new) answer->said = said;
    *answered = true;
  });
}

// One fiber, as one thread polls the queue of calls.
void Daemon::HandleCalls(Process& process) {
  for (;;) {
    while (process.calls.empty()) scheduler_.Park(&process.calls);
    const std::function<void()> call = std::move(process.calls.front());
    process.calls.pop_front();
    call();
  }
}

void Daemon::Call(std::function<void()> call) {
  if (process_ == nullptr) return;
  process_->calls.push_back(std::move(call));
  scheduler_.WakeAll(&process_->calls);
}

void Daemon::OnOpened(std::uint64_t) {}

void Daemon::OnFrame(std::uint64_t stream, v1::ClientFrame frame) {
  Call([this, process = process_, stream, frame = std::move(frame)]() mutable {
    HandleFrame(*process, stream, std::move(frame));
  });
}

void Daemon::HandleFrame(Process& process, std::uint64_t stream, v1::ClientFrame frame) {
  for (const v1::Request& request : frame.requests()) Log("request", stream, request);
  mdc::VolumeServer* const server = process.role.server();
  if (server == nullptr) return SendOn(process, stream, frame);
  const auto known = process.streams.find(stream);
  if (known != process.streams.end()) return server->Post(known->second, std::move(frame));
  const mdc::StreamId id = server->AddStream(std::make_shared<Peer>(*this, stream));
  process.streams[stream] = id;
  server->Post(id, std::move(frame));
}

// As a standby.
void Daemon::SendOn(const Process& process, std::uint64_t stream, const v1::ClientFrame& frame) {
  v1::ServerFrame answer;
  v1::Reply& reply = *answer.add_replies();
  if (frame.requests_size() > 0) reply.set_id(frame.requests(0).id());
  reply.set_active(process.role.active().address);
  reply.set_error(EREMOTE);
  reply.set_message("a standby");
  network_.Send(stream, std::move(answer));
  network_.End(stream);
}

void Daemon::OnEnded(std::uint64_t stream) {
  Call([process = process_, stream] {
    const auto known = process->streams.find(stream);
    if (known == process->streams.end()) return;
    const mdc::StreamId id = known->second;
    process->streams.erase(known);
    process->server->StreamEnded(id);
  });
}

// ---- the record -------------------------------------------------------------------------------

template <typename Message>
void Daemon::Log(const char* what, std::uint64_t stream, const Message& message) const {
  if (!options_.log) return;
  const OtherHeap other_heap;
  options_.log(absl::StrCat("  ", what, " on stream ", stream, " of mdc", options_.number, ": ",
                            message.ShortDebugString().substr(0, kLoggedBytes)));
}

std::uint64_t Daemon::Counter(const std::string& name) const {
  if (process_ == nullptr || process_->core == nullptr) return 0;
  v1::StatReply stat;
  process_->core->Describe(stat);
  for (const auto& counter : stat.counters()) {
    if (counter.name() == name) return counter.value();
  }
  return 0;
}

Daemon::Totals Daemon::totals() const {
  Totals totals = totals_;
  totals.evictions += Counter("session.evictions");
  totals.recalls += Counter("token.recalls");
  totals.repetitions += Counter("operation.repetitions");
  totals.delegated += Counter("operation.delegated");
  totals.replayed += Counter("operation.replayed");
  totals.blocked += Counter("operation.blocked");
  totals.misses += Counter("operation.misses");
  totals.reaped += Counter("orphans.reaped");
  for (std::size_t i = 0; i < totals.moved.size(); ++i) {
    const auto kind = std::string(mdc::JobTable::KindWord(static_cast<v1::JobKind>(i)));
    totals.moved[i] += Counter(absl::StrCat("job.moved_blocks.", kind));
  }
  totals.broken_moves += Counter("job.broken_moves");
  return totals;
}

}  // namespace reel::sim
