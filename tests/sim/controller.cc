#include "tests/sim/controller.h"

#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "volume/check.h"

namespace reel::sim {
namespace {

constexpr Micros kTick = 50 * kMs;
constexpr std::size_t kLoggedBytes = 400;
// Of its lives; below are the clients'.
constexpr int kFirstHost = 40;

}  // namespace

Controller::Controller(Scheduler& scheduler, Network& network, Options options)
    : scheduler_(scheduler),
      network_(network),
      options_(std::move(options)),
      store_(scheduler.random()) {
  db_ = store_.Open();
  failure_ = mdc::FormatVolume(*db_, options_.descriptor, {}, scheduler_.WallNow());
  network_.SetServer(this);
}

void Controller::Start() {
  ++life_;
  syncing_ = wants_sync_ = false;
  orders_.clear();
  host_ = kFirstHost + static_cast<int>(life_);
  scheduler_.Spawn(host_, [this, life = life_] { Boot(life); });
}

// A life that ends meanwhile ends here: its host is dead.
void Controller::Boot(std::uint64_t life) {
  const bool fences = options_.disks.front()->reserves();
  volume_.descriptor = options_.descriptor;
  volume_.luns.clear();
  for (Disk* disk : options_.disks) {
    volume_.luns.push_back(std::make_unique<Path>(*disk, host_, weather_));
  }
  std::uint64_t quarantine_ms = 0;
  auto fencer = std::make_unique<mdc::Fencer>(volume_);
  if (fences) failure_.Update(fencer->Take(Epoch(life), &quarantine_ms));
  store_.set_all_in_memory(true);
  mdc::CoreOptions core_options;
  core_options.session_lease_ms = options_.session_lease_ms;
  core_options.slots = 4;
  core_options.reservations = fences;
  absl::StatusOr<std::unique_ptr<mdc::Core>> core =
      mdc::Core::Start(*db_, options_.descriptor, scheduler_, core_options);
  failure_.Update(core.status());
  if (!core.ok()) return;
  if (fences) failure_.Update(fencer->Sweep((*core)->KnownKeys(), &quarantine_ms));
  fencer_ = std::move(fencer);
  core_ = *std::move(core);
  store_.set_all_in_memory(false);
  Deliver();
  NoteSessions();
  scheduler_.After(kTick, [this, life] { Tick(life); });
  if (fences) FenceOrdered(life);
}

void Controller::FenceOrdered(std::uint64_t life) {
  while (life == life_ && core_ != nullptr) {
    if (orders_.empty()) {
      scheduler_.Park(&orders_);
      continue;
    }
    const mdc::CoreOutputs::Fence order = std::move(orders_.front());
    orders_.pop_front();
    const mdc::FenceOutcome outcome = fencer_->Fence(order);
    if (life != life_ || core_ == nullptr) return;
    if (outcome.done) ++totals_.fences;
    core_->OnFenced(order.id, outcome);
    NoteSessions();
    Deliver();
  }
}

void Controller::Crash() {
  if (core_ == nullptr) return;
  totals_ = totals();
  ++totals_.crashes;
  core_.reset();
  ++life_;
  scheduler_.Kill(host_);
  totals_.lost_batches += store_.Crash();
  network_.CutAll();
}

template <typename Message>
void Controller::Log(const char* what, std::uint64_t stream, const Message& message) const {
  if (!options_.log) return;
  options_.log(absl::StrCat("  ", what, " on stream ", stream, ": ",
                            message.ShortDebugString().substr(0, kLoggedBytes)));
}

void Controller::Tick(std::uint64_t life) {
  if (life != life_ || core_ == nullptr) return;
  core_->OnTick();
  Deliver();
  NoteSessions();
  scheduler_.After(kTick, [this, life] { Tick(life); });
}

void Controller::OnOpened(std::uint64_t stream) {
  core_->OnStreamOpened(mdc::StreamId(stream), "");
}

void Controller::OnFrame(std::uint64_t stream, v1::ClientFrame frame) {
  for (v1::Request& request : *frame.mutable_requests()) {
    Log("request", stream, request);
    core_->OnRequest(mdc::StreamId(stream), std::move(request));
  }
  Deliver();
}

void Controller::OnEnded(std::uint64_t stream) {
  core_->OnStreamEnded(mdc::StreamId(stream));
  Deliver();
}

void Controller::Deliver() {
  mdc::CoreOutputs outputs = core_->TakeOutputs();
  if (!core_->health().ok()) failure_ = core_->health();
  std::map<std::uint64_t, v1::ServerFrame> frames;
  for (mdc::CoreOutputs::Send& send : outputs.sends) {
    v1::ServerFrame& frame = frames[send.stream.value()];
    if (auto* reply = std::get_if<v1::Reply>(&send.message)) {
      Log("reply", send.stream.value(), *reply);
      *frame.add_replies() = std::move(*reply);
    } else {
      Log("callback", send.stream.value(), std::get<v1::Callback>(send.message));
      *frame.add_callbacks() = std::get<v1::Callback>(std::move(send.message));
    }
  }
  for (auto& [stream, frame] : frames) network_.Send(stream, std::move(frame));
  for (const mdc::StreamId stream : outputs.ends) network_.End(stream.value());
  for (const mdc::CoreOutputs::Fetch& fetch : outputs.fetches) {
    const Micros delay = scheduler_.random().Between(20, 400);
    scheduler_.After(delay, [this, ticket = fetch.ticket, life = life_] {
      if (life != life_ || core_ == nullptr) return;
      core_->OnFetched(ticket);
      Deliver();
    });
  }
  for (mdc::CoreOutputs::Fence& order : outputs.fences) orders_.push_back(std::move(order));
  if (!outputs.fences.empty()) scheduler_.WakeAll(&orders_);
  if (outputs.wants_sync) {
    wants_sync_ = true;
    Sync();
  }
}

// One at a time; what is applied meanwhile is for the next.
void Controller::Sync() {
  if (syncing_ || !wants_sync_) return;
  syncing_ = true;
  wants_sync_ = false;
  const std::uint64_t through = store_.last_applied();
  Random& random = scheduler_.random();
  const Micros delay = random.Between(50, random.OneIn(16) ? 20 * kMs : 600);
  scheduler_.After(delay, [this, through, life = life_] {
    if (life != life_ || core_ == nullptr) return;
    store_.MakeDurable(through);
    syncing_ = false;
    core_->OnDurable(Sequence(through));
    NoteSessions();
    Deliver();
    Sync();
  });
}

// An evicted session is there until that is durable. A host's name is its number.
void Controller::NoteSessions() {
  v1::WhoReply who;
  core_->Describe(who);
  std::map<std::uint64_t, int> now;
  for (const v1::WhoReply::Session& session : who.sessions()) {
    int host = 0;
    REEL_CHECK(absl::SimpleAtoi(session.host(), &host), "hosts are named by numbers");
    now.emplace(session.session(), host);
  }
  for (const auto& [session, host] : std::exchange(sessions_, now)) {
    if (!now.contains(session)) options_.on_session_over(host);
  }
}

std::uint64_t Controller::Counter(const std::string& name) const {
  if (core_ == nullptr) return 0;
  v1::StatReply stat;
  core_->Describe(stat);
  for (const auto& counter : stat.counters()) {
    if (counter.name() == name) return counter.value();
  }
  return 0;
}

Controller::Totals Controller::totals() const {
  Totals totals = totals_;
  totals.evictions += Counter("session.evictions");
  totals.recalls += Counter("token.recalls");
  totals.replays += Counter("operation.replays");
  totals.blocked += Counter("operation.blocked");
  totals.misses += Counter("operation.misses");
  totals.reaped += Counter("orphans.reaped");
  return totals;
}

bool Controller::Quiet() const {
  return core_ != nullptr && !syncing_ && !wants_sync_ && Counter("session.now") == 0 &&
         Counter("orphans.now") == 0;
}

void Controller::Stop() {
  store_.set_all_in_memory(true);
  failure_ = core_->PrepareStop();
  (void)db_->Sync();
  totals_ = totals();
  core_.reset();
  ++life_;
}

}  // namespace reel::sim
