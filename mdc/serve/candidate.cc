#include "mdc/serve/candidate.h"

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "mdc/seat/seat_check.h"
#include "mdc/seat/succession.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

using Verdict = SeatWatch::Verdict;

// An order counts for that long: for a standby that has watched all the time, and for one that has
// just begun to, whose holder's term may not be over.
constexpr std::uint64_t kOrderMs = 10'000;
// A volume whose LUNs became another one's is looked for by its name that often: a scan of all
// LUNs.
constexpr std::uint64_t kFindMs = 5'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Candidate>> Candidate::Open(VolumeServerOptions options,
                                                           SeatOptions seat, VolumeRole& role,
                                                           const Clock& clock, PeerPort* peers) {
  auto candidate =
      absl::WrapUnique(new Candidate(std::move(options), std::move(seat), role, clock));
  if (peers != nullptr) {
    candidate->holder_.emplace(*peers, clock, candidate->options_.volume, candidate->seat_.seat_ms);
  }
  if (absl::Status s = candidate->Find(); !s.ok()) return s;
  return candidate;
}

absl::Status Candidate::Find() {
  find_at_ms_ = clock_.NowMs() + kFindMs;
  contest_.lun.reset();
  contest_.volume.reset();
  auto volume = OpenVolumeByName(options_.volume, options_.luns, LunAccess::kReadWrite);
  if (!volume.ok()) return volume.status();
  seat_.volume = volume->descriptor.volume;
  watch_.emplace(seat_);
  changes_at_order_.reset();
  lun_name_ = volume->seat_name();
  contest_.volume = std::make_unique<OpenVolume>(*std::move(volume));
  return ReopenLun();
}

// Without the claim that it may have.
absl::Status Candidate::ReopenLun() {
  contest_.lun.reset();
  contest_.claimed = false;
  auto lun = SeatLun::Open(lun_name_, seat_.volume);
  if (lun.ok()) contest_.lun = *std::move(lun);
  return lun.status();
}

// ---- looking ----------------------------------------------------------------------------------

absl::StatusOr<SeatLook> Candidate::LookAtLun() {
  if (contest_.volume == nullptr) {
    if (clock_.NowMs() < find_at_ms_) return absl::UnavailableError("there is no such volume now");
    if (absl::Status s = Find(); !s.ok()) return s;
    spdlog::warn("volume {}: {} has that name now", options_.volume, seat_.volume.ToString());
  }
  if (contest_.lun == nullptr) {
    if (absl::Status s = ReopenLun(); !s.ok()) return s;
  }
  return contest_.lun->Look(clock_);
}

// What it has open of a volume that is no more is of no use.
void Candidate::LetGo(const absl::Status& why) {
  spdlog::error("volume {}: {}", options_.volume, std::string(why.message()));
  contest_.lun.reset();
  contest_.claimed = false;
  contest_.volume.reset();
  find_at_ms_ = 0;
}

absl::StatusOr<Verdict> Candidate::Look() {
  auto look = LookAtLun();
  if (absl::IsFailedPrecondition(look.status()) && contest_.volume != nullptr) {
    LetGo(look.status());
    look = LookAtLun();
  }
  if (!look.ok()) return look.status();
  contest_.look = *std::move(look);
  const Verdict verdict = watch_->Consider(contest_.look);
  {
    MutexLock lock(mutex_);
    if (std::exchange(order_is_new_, false)) changes_at_order_ = watch_->changes();
  }
  Announce();
  if (absl::Status s = CheckProtocol(); !s.ok()) return s;
  return verdict;
}

// Its clients would find nobody whom they understand, and its store may be beyond this program.
absl::Status Candidate::CheckProtocol() const {
  const auto& block = contest_.look.block;
  if (!block.ok() || block->volume != seat_.volume) return absl::OkStatus();
  const auto common = CommonProtocol({absl::StrCat("reel-mdcd on ", block->host),
                                      ProtocolOf(block->protocol_oldest, block->protocol_newest)},
                                     {absl::StrCat("reel-mdcd on ", seat_.host), seat_.protocol});
  if (common.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("volume ", options_.volume, ": ", common.status().message()));
}

std::unique_ptr<VolumeServer> Candidate::AnnounceOurs(std::unique_ptr<VolumeServer> server) {
  role_.Know(seat_.volume, {.epoch = server->epoch(),
                            .address = seat_.address,
                            .host = seat_.host,
                            .protocol = seat_.protocol,
                            .program = seat_.program,
                            .maintenance = server->maintenance()});
  return server;
}

void Candidate::Announce() {
  VolumeRole::Active active;
  const auto& block = contest_.look.block;
  if (block.ok() && block->volume == seat_.volume) {
    active.epoch = block->epoch;
    active.stopped = block->stopped;
    active.maintenance = block->maintenance;
    if (block->state == ArbitrationBlock::State::kHeld) {
      active.address = block->address;
      active.host = block->host;
      active.protocol = ProtocolOf(block->protocol_oldest, block->protocol_newest);
      active.program = block->program;
    }
  }
  role_.Know(seat_.volume, std::move(active));
}

bool Candidate::HolderIsDead() const {
  if (!contest_.claimed || watch_->stands_back()) return false;
  const auto written = WrittenEpoch(*contest_.volume);
  return written.ok() && HolderDiedHere(contest_.look, seat_, *written);
}

bool Candidate::MayTake(Verdict verdict) {
  if (!contest_.claimed) contest_.claimed = contest_.lun->ClaimForThisProcess().ok();
  if (verdict == Verdict::kHeld) return HolderIsDead();
  if (contest_.claimed) return true;
  // Its holder stands still on this machine, or is about to end: the claim follows later.
  const auto& block = contest_.look.block;
  return block.ok() && block->volume == seat_.volume && block->machine == seat_.machine &&
         (verdict == Verdict::kExpired || block->state == ArbitrationBlock::State::kOffered);
}

// Only who serves by reservations promises anything; others are not asked.
void Candidate::FollowHolder() {
  if (!holder_) return;
  const auto& block = contest_.look.block;
  const bool held = block.ok() && block->volume == seat_.volume &&
                    block->state == ArbitrationBlock::State::kHeld &&
                    block->holder != seat_.holder && contest_.look.reserved_by != 0;
  holder_->Follow(held ? block->address : std::string());
}

std::optional<EarlyClaim> Candidate::Early() {
  const auto suspicion = holder_ ? holder_->Suspicion() : std::nullopt;
  if (!suspicion) return std::nullopt;
  const auto since_ms = watch_->StandsStill(contest_.look, *suspicion);
  if (!since_ms) return std::nullopt;
  const EarlyClaim early{.answer_ms = suspicion->promise.answer_ms,
                         .promised_until_ms = suspicion->promise.until_ms,
                         .unchanged_since_ms = *since_ms,
                         .term_ms = contest_.look.block->seat_ms};
  if (!early.PromiseCovers(*since_ms)) return std::nullopt;
  return early;
}

bool Candidate::WaitForNextLook() {
  std::uint64_t period_ms = SeatLookMs(seat_.seat_ms);
  if (holder_ && holder_->HasPromise()) {
    period_ms = holder_->Suspicion() ? SuspectLookMs(seat_.seat_ms) : WatchedLookMs(seat_.seat_ms);
  }
  const std::chrono::milliseconds period(period_ms);
  MutexLock lock(mutex_);
  if (!stopping_) changed_.WaitFor(mutex_, period);
  return !stopping_;
}

void Candidate::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.NotifyAll();
}

void Candidate::Order() {
  MutexLock lock(mutex_);
  ordered_until_ms_ = clock_.NowMs() + kOrderMs;
  order_is_new_ = true;
  changed_.NotifyAll();
}

absl::Status Candidate::Wanted() {
  bool ordered = false;
  {
    MutexLock lock(mutex_);
    ordered = clock_.NowMs() < ordered_until_ms_;
  }
  // A dead one's term may be longer than that, where it died as it took over.
  ordered = ordered || changes_at_order_ == watch_->changes();
  return MayFollow(contest_.look, seat_, ordered);
}

// ---- taking -----------------------------------------------------------------------------------

Takeover Candidate::TakeTheSeat() {
  if (holder_) holder_->Follow({});
  if (!watch_->stands_back()) options_.core.unheard_before = 0;
  return TakeOver(contest_, options_, seat_, clock_);
}

absl::StatusOr<std::unique_ptr<VolumeServer>> Candidate::Begin() {
  const std::uint64_t patience_ms = (seat_.stands_back ? 4 : 2) * ClaimAfterMs(seat_.seat_ms);
  const std::uint64_t began_ms = clock_.NowMs();
  for (;;) {
    if (options_.on_beat) options_.on_beat();
    const auto verdict = Look();
    if (!verdict.ok()) return verdict.status();
    const bool wanted = Wanted().ok();
    if (wanted && MayTake(*verdict)) {
      Takeover takeover = TakeTheSeat();
      if (takeover.server != nullptr) return AnnounceOurs(std::move(takeover.server));
      if (takeover.won || !absl::IsAborted(takeover.status)) return takeover.status;
      spdlog::info("volume {}: {}", options_.volume, std::string(takeover.status.message()));
    } else if (*verdict == Verdict::kHeld ? watch_->SawChange() : !wanted) {
      if (absl::Status s = ReopenLun(); !s.ok()) return s;
      return nullptr;
    } else if (*verdict != Verdict::kHeld && clock_.NowMs() - began_ms > patience_ms) {
      return absl::FailedPreconditionError(
          absl::StrCat("volume ", options_.volume,
                       " is in use: ", contest_.lun->ClaimForThisProcess().message()));
    }
    if (!WaitForNextLook()) return nullptr;
  }
}

absl::StatusOr<std::unique_ptr<VolumeServer>> Candidate::StandBy() {
  while (WaitForNextLook()) {
    if (options_.on_beat) options_.on_beat();
    auto verdict = Look();
    absl::Status problem = verdict.status();
    contest_.early.reset();
    if (verdict.ok()) FollowHolder();
    if (verdict.ok() && *verdict == Verdict::kHeld) {
      contest_.early = Early();
      if (contest_.early) *verdict = Verdict::kExpired;
    }
    if (verdict.ok() && *verdict != Verdict::kHeld && Wanted().ok() && MayTake(*verdict)) {
      spdlog::warn("volume {}: {}; taking over", options_.volume,
                   *verdict == Verdict::kFree ? "the seat is free"
                   : contest_.early ? "the active controller does not answer, and beats no more"
                                    : "the active controller's term is over");
      Takeover takeover = TakeTheSeat();
      if (takeover.server != nullptr) return AnnounceOurs(std::move(takeover.server));
      if (takeover.won) return takeover.status;
      problem = takeover.status;
      contest_.lun.reset();  // and with it this machine's claim, for who may be faster
    }
    if (!problem.ok() && !std::exchange(warned_, true)) {
      spdlog::warn("volume {}: the seat cannot be looked at, or taken: {}; trying again",
                   options_.volume, std::string(problem.message()));
    } else if (problem.ok()) {
      warned_ = false;
    }
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<VolumeServer>> TakeAndServe(VolumeServerOptions options,
                                                           const SeatOptions& seat,
                                                           const Clock& clock) {
  VolumeRole role(options.volume);
  auto candidate = Candidate::Open(std::move(options), seat, role, clock);
  if (!candidate.ok()) return candidate.status();
  auto server = (*candidate)->Begin();
  if (server.ok() && *server == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the controller at ", role.active().address, " serves the volume"));
  }
  return server;
}

}  // namespace reel::mdc
