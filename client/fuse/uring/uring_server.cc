#include "client/fuse/uring/uring_server.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "client/base/cpu_binding.h"
#include "client/base/wait_limits.h"
#include "client/fuse/uring/cpus.h"
#include "client/fuse/uring/uring_ring.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

using Stage = UringStage::Stage;

constexpr std::uint32_t kQueuesOfAKeeper = 8;

void Raise(const UniqueFd& event) {
  const std::uint64_t once = 1;
  (void)!::write(event.get(), &once, sizeof(once));
}

// Each ring is a descriptor, and each thread has another for LUNs.
void AllowManyFiles() {
  constexpr rlim_t kWanted = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, kWanted);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint32_t KeepersFor(std::uint32_t queues) {
  return (queues + kQueuesOfAKeeper - 1) / kQueuesOfAKeeper;
}

}  // namespace

UringServer::Options UringServer::ForThisMachine(std::uint32_t idle_threads,
                                                 std::uint32_t max_threads,
                                                 std::uint32_t request_bytes) {
  const auto queues = static_cast<std::uint32_t>(PossibleCpus().size());
  std::vector<int> cpus = OnlineCpus();
  const auto share = kMaxUringResidents / static_cast<std::uint32_t>(cpus.size());
  return {.queues = queues,
          .cpus = std::move(cpus),
          .entries = UringEntriesOfAQueue(queues),
          .residents = std::clamp(share, 2u, std::max(2u, idle_threads)),
          .adopting = kMaxUringAdopted,
          .request_bytes = request_bytes,
          .helpers = {.idle = idle_threads, .max = max_threads}};
}

absl::StatusOr<std::unique_ptr<UringServer>> UringServer::Create(const Options& options,
                                                                 FuseDispatcher& dispatcher,
                                                                 DirectGate& gate,
                                                                 std::function<void()> on_end) {
  absl::StatusOr<UringMemory> memory =
      UringMemory::Map(std::size_t{options.queues} * options.entries, options.request_bytes);
  if (!memory.ok()) return memory.status();
  CpuBinding::Learn();
  AllowManyFiles();
  std::unique_ptr<UringServer> server(
      new UringServer(options, dispatcher, gate, std::move(on_end), *std::move(memory)));
  if (!server->Start()) return absl::ResourceExhaustedError("cannot start a thread");
  const auto threads =
      static_cast<std::uint32_t>(server->keepers_.size() + server->residents_.size());
  if (absl::Status status = server->stage_.AwaitReports(threads); !status.ok()) return status;
  return server;
}

UringServer::UringServer(const Options& options, FuseDispatcher& dispatcher, DirectGate& gate,
                         std::function<void()> on_end, UringMemory memory)
    : options_(options),
      dispatcher_(dispatcher),
      gate_(gate),
      on_end_(std::move(on_end)),
      resident_calls_{.serve = [this](UringEntry& entry) { return Serve(entry, false); },
                      .on_end = on_end_,
                      .give_up = [this](UringEntry& entry) { GiveUp(entry); }},
      keeper_calls_{.hand_on = [this](UringEntry& entry) { HandOn(entry); }, .on_end = on_end_},
      ended_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      memory_(std::move(memory)),
      entries_(std::make_unique<UringEntry[]>(std::size_t{options.queues} * options.entries)),
      helpers_(options.helpers, [this](const UringHelpers::Work& work) { Help(work); }),
      idle_(options.queues) {
  std::vector<std::vector<UringEntry*>> spares(KeepersFor(options.queues));
  for (std::uint32_t queue = 0; queue < options.queues; ++queue) {
    const bool online = std::ranges::count(options.cpus, static_cast<int>(queue)) > 0;
    for (std::uint32_t i = 0; i < options.entries; ++i) {
      const std::size_t place = std::size_t{queue} * options.entries + i;
      UringEntry& entry = entries_[place];
      const bool is_home = online && i < options.residents;
      if (is_home) {
        const UringResident::Place place_of_it{
            .entry = entry, .idle = idle_[queue], .ended_fd = ended_fd_.get()};
        residents_.push_back(std::make_unique<UringResident>(stage_, place_of_it, resident_calls_));
      } else {
        spares[queue % spares.size()].push_back(&entry);
      }
      entry.Place(memory_.Of(place), static_cast<std::uint16_t>(queue),
                  is_home ? residents_.back().get() : nullptr);
    }
  }
  for (std::vector<UringEntry*>& kept : spares) {
    keepers_.push_back(std::make_unique<UringKeeper>(stage_, std::move(kept), keeper_calls_));
  }
}

bool UringServer::Start() {
  if (!ended_fd_.valid() || !helpers_.Start()) return false;
  for (const auto& keeper : keepers_) {
    if (!keeper->Start()) return false;
  }
  for (const auto& resident : residents_) {
    if (!resident->Start()) return false;
  }
  return true;
}

UringServer::~UringServer() {
  End();
  for (const auto& resident : residents_) resident->Join();
  for (const auto& keeper : keepers_) keeper->Join();
  helpers_.Join();
  MutexLock lock(mutex_);  // (From the end on nothing is adopted.)
  for (const auto& resident : adopted_) resident->Join();
}

absl::Status UringServer::Register() {
  stage_.Advance(Stage::kRegisterSpares, dispatcher_.fd());
  absl::Status status = stage_.AwaitReports(static_cast<std::uint32_t>(keepers_.size()));
  if (!status.ok()) return status;
  stage_.Advance(Stage::kRegisterResidents);
  status = stage_.AwaitReports(static_cast<std::uint32_t>(residents_.size()));
  stage_.Advance(Stage::kServing);
  return status;
}

void UringServer::Stop() {
  stage_.Advance(Stage::kStopped);
  helpers_.Stop();
}

bool UringServer::IsIdle() {
  const auto serves = [](const auto& one) { return one->serving(); };
  if (!helpers_.IsIdle() || std::ranges::any_of(residents_, serves)) return false;
  MutexLock lock(mutex_);
  return std::ranges::none_of(adopted_, serves);
}

void UringServer::End() {
  Stop();
  stage_.Advance(Stage::kEnded);
  Raise(ended_fd_);
  for (const auto& keeper : keepers_) keeper->Wake();
}

bool UringServer::Serve(UringEntry& entry, bool let_in) {
  const bool direct = entry.IsDirect();
  if (direct && !let_in && !gate_.Enter(entry, DirectGate::Keeps::kPlace)) return false;
  dispatcher_.Serve(entry);
  entry.ReplyError(EIO);  // nobody is to wait for ever
  // The next one not by this thread: its own answer has yet to leave.
  if (const auto next = direct ? gate_.Leave() : std::nullopt) {
    helpers_.Run({.entry = static_cast<UringEntry*>(next->place), .let_in = true});
  }
  return true;
}

void UringServer::Help(const UringHelpers::Work& work) {
  if (!Serve(*work.entry, work.let_in)) return;
  if (!work.adopt || !Adopt(*work.entry)) Return(*work.entry);
}

void UringServer::HandOn(UringEntry& entry) {
  if (!stage_.serving()) return;
  if (entry.Take()) {
    const bool idle = idle_[entry.queue()].load(std::memory_order_relaxed) > 0;
    helpers_.Run({.entry = &entry, .adopt = idle});
  } else {
    Return(entry);
  }
}

void UringServer::Return(UringEntry& entry) {
  entry.home() != nullptr ? entry.home()->TakeBack() : KeeperOf(entry).TakeBack(entry);
}

// (It has an answer, and goes to the kernel with it from the resident's own ring.)
bool UringServer::Adopt(UringEntry& entry) {
  MutexLock lock(mutex_);
  if (!stage_.serving() || adopted_.size() >= options_.adopting) return false;
  auto resident = std::make_unique<UringResident>(stage_,
                                                  UringResident::Place{.entry = entry,
                                                                       .adopted = true,
                                                                       .idle = idle_[entry.queue()],
                                                                       .ended_fd = ended_fd_.get()},
                                                  resident_calls_);
  entry.Adopt(resident.get());
  if (!resident->Start()) {
    entry.Adopt(nullptr);
    return false;
  }
  adopted_.push_back(std::move(resident));
  return true;
}

void UringServer::GiveUp(UringEntry& entry) {
  entry.Adopt(nullptr);
  KeeperOf(entry).TakeBack(entry);
}

void UringServer::AnswerParked(UringEntry& entry, int error) {
  entry.ReplyError(error);
  Return(entry);
}

}  // namespace reel::client
