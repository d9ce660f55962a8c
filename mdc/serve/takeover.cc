#include "mdc/serve/takeover.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/phase_times.h"
#include "mdc/metafs/pool_space.h"
#include "mdc/metafs/superblock.h"
#include "spdlog/spdlog.h"
#include "volume/format/label.h"

namespace reel::mdc {
namespace {

// That none of its LUNs has become another volume's while nobody looked.
absl::Status CheckLuns(const OpenVolume& volume) {
  for (const auto& lun : volume.luns) {
    if (absl::Status s = CheckStillOf(*lun, volume.descriptor.volume); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Paths that were lost while nothing was asked of them are opened anew.
absl::Status ReopenLuns(OpenVolume& volume) {
  for (const auto& lun : volume.luns) {
    if (absl::Status s = lun->Reopen(); !s.ok()) return s;
  }
  return CheckLuns(volume);
}

// A volume that was changed meanwhile is opened anew: LUNs of it may have gone, and are asked
// nothing. It stays the volume that it was.
absl::Status Refresh(OpenVolume& volume, const VolumeServerOptions& options) {
  Lun& seat_lun = volume.seat_lun();
  if (absl::Status s = seat_lun.Reopen(); !s.ok()) return s;
  if (absl::Status s = CheckStillOf(seat_lun, volume.descriptor.volume); !s.ok()) return s;
  const auto now = ReadDescriptor(seat_lun);
  if (!now.ok()) return now.status();
  if (now->descriptor == volume.descriptor) return ReopenLuns(volume);
  auto anew = OpenVolumeByName(options.volume, options.luns, LunAccess::kReadWrite);
  if (!anew.ok()) return anew.status();
  if (anew->descriptor.volume != volume.descriptor.volume) {
    return absl::FailedPreconditionError(absl::StrCat(
        "volume ", options.volume, " is another one now: ", anew->descriptor.volume.ToString(),
        ", and it was ", volume.descriptor.volume.ToString()));
  }
  volume = *std::move(anew);
  return absl::OkStatus();
}

// Now that the old holder is fenced, none of its beats is carried out any more. The last one was
// sent before the look that first showed it; where another one came after the last look, it was
// sent before now.
std::uint64_t AnswersOver(const Contest& contest, SeatLun& lun, const Clock& clock) {
  const auto bytes = lun.Read();
  const bool same = bytes.ok() && *bytes == contest.look.bytes;
  const EarlyClaim& early = *contest.early;
  const std::uint64_t last_ms = same ? early.unchanged_since_ms : clock.NowMs();
  return last_ms + (early.PromiseCovers(last_ms) ? AnswersOverMs(early.answer_ms)
                                                 : ClaimAfterMs(early.term_ms));
}

// The old holder may have changed the map since Refresh looked; now it cannot any more. (That takes
// a moment that hardly ever comes, and then as long as a taker that dies: TakingMs.)
absl::Status CheckMap(OpenVolume& volume) {
  auto now = ReadDescriptor(volume.seat_lun());
  for (int again = 0; again < 2 && !now.ok(); ++again) now = ReadDescriptor(volume.seat_lun());
  if (!now.ok()) return now.status();
  if (now->descriptor == volume.descriptor) return absl::OkStatus();
  return absl::AbortedError("the volume's map was changed in the moment of the takeover");
}

// Fence on the seat LUN, and claim: with reservations by PREEMPT, which only one can do, and the
// block says so afterwards; without, by the block alone.
absl::Status TakeSeat(const Contest& contest, Epoch epoch, const Clock& clock, WonSeat& won) {
  Fencer& fencer = *won.fencer;
  HeldSeat& held = *won.seat;
  if (contest.early && !fencer.all()) {
    return absl::AbortedError("a LUN without reservations has come: the term is waited for");
  }
  if (!fencer.seat_key_rules()) return held.seat().Claim(contest.look, epoch, contest.claimed);
  const auto key = fencer.TakeSeatLun(epoch, contest.look.reserved_by, &won.quarantine_ms);
  if (!key.ok()) return key.status();
  if (contest.early) {
    if (absl::Status s = CheckMap(*contest.volume); !s.ok()) return s;
    won.answers_over_ms = AnswersOver(contest, held.lun(), clock);
  }
  if (absl::Status s = held.lun().Register(*key); !s.ok()) return s;
  return held.seat().Enter(epoch, contest.claimed);
}

HeldSeat::Events EventsOf(const VolumeServerOptions& options) {
  HeldSeat::Events events;
  events.lost = [name = options.volume,
                 lost = options.on_seat_lost ? options.on_seat_lost
                                             : options.on_failure](const absl::Status& status) {
    lost(absl::AbortedError(
        absl::StrCat("volume ", name, ": the seat is lost: ", status.message())));
  };
  events.expired = options.on_seat_expired ? options.on_seat_expired : [] {};
  events.beaten = options.on_beat;
  return events;
}

// What follows a seat that was won. Its errors are the end of this process's time in it.
absl::StatusOr<std::unique_ptr<VolumeServer>> Serve(const VolumeServerOptions& options,
                                                    ServingSeat serving, WonSeat& won,
                                                    const Clock& clock, PhaseTimes& phases) {
  HeldSeat& held = *serving.seat;
  absl::Status status = serving.fencer->Take(held.epoch(), &won.quarantine_ms);
  phases.Ended("fences");
  if (status.ok()) {
    WaitOut(options.volume, won.quarantine_ms);
    status = CheckLuns(*serving.volume);  // again: from here on they are written to
    phases.Ended("quarantine");
  }
  serving.parts = phases.parts();
  if (status.ok()) {
    auto server = VolumeServer::Open(options, serving, clock);
    phases.Ended("store");
    if (server.ok()) return server;
    status = server.status();
  }
  // Nothing was acknowledged, and nothing is under way any more.
  if (absl::Status s = held.GiveUp({}); !s.ok()) {
    spdlog::warn("volume {}: {}", options.volume, std::string(s.message()));
  }
  return status;
}

}  // namespace

absl::StatusOr<Epoch> WrittenEpoch(OpenVolume& volume) {
  metafs::PoolSpace space(volume);
  const auto reading = metafs::ReadSuperblock(space);
  if (!reading.ok()) return reading.status();
  return reading->superblock.epoch;
}

Epoch NextEpoch(const Contest& contest, Epoch written) {
  Epoch last = std::max(written, contest.look.last_reserved);
  if (contest.look.block.ok() && contest.look.block->volume == contest.volume->descriptor.volume) {
    last = std::max(last, contest.look.block->epoch);
  }
  return last + 1;
}

absl::StatusOr<WonSeat> WinSeat(Contest& contest, Epoch epoch, const SeatOptions& seat,
                                HeldSeat::Events events, const Clock& clock, bool stays_stopped) {
  WonSeat won{.fencer = std::make_unique<Fencer>(*contest.volume),
              .seat = std::make_unique<HeldSeat>(std::move(contest.lun), clock, seat)};
  won.seat->seat().Inherit(contest.look, stays_stopped);
  absl::Status taken = TakeSeat(contest, epoch, clock, won);
  if (!taken.ok()) {
    won.seat->lun().Unregister();
    contest.lun = won.seat->TakeLun();
    return taken;
  }
  won.seat->Begin(std::move(events));
  return won;
}

Takeover TakeOver(Contest& contest, const VolumeServerOptions& options, const SeatOptions& seat,
                  const Clock& clock) {
  const auto failed = [](const absl::Status& status) { return Takeover{.status = status}; };
  PhaseTimes phases(clock);
  const WallTime began = clock.WallNow();
  if (absl::Status s = Refresh(*contest.volume, options); !s.ok()) return failed(s);
  const auto written = WrittenEpoch(*contest.volume);
  if (!written.ok()) return failed(written.status());
  const Epoch epoch = NextEpoch(contest, *written);
  phases.Ended("luns");
  auto won = WinSeat(contest, epoch, seat, EventsOf(options), clock);
  if (!won.ok()) return failed(won.status());
  phases.Ended("seat");
  spdlog::info("volume {}: has the seat, in epoch {}", options.volume, epoch.value());
  ServingSeat serving{.volume = std::move(contest.volume),
                      .fencer = std::move(won->fencer),
                      .seat = std::move(won->seat),
                      .answers_over_ms = won->answers_over_ms,
                      .began = began};
  auto server = Serve(options, std::move(serving), *won, clock, phases);
  if (!server.ok()) return {.status = server.status(), .won = true};
  spdlog::info("volume {}: taken over: {}", options.volume, phases.Text());
  return {.server = *std::move(server), .won = true};
}

}  // namespace reel::mdc
