#include "mdc/serve/tool_seat.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "mdc/seat/seat_check.h"
#include "spdlog/spdlog.h"
#include "volume/base/host_name.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/reservation.h"

namespace reel::mdc {
namespace {

SeatOptions OptionsOf(const VolumeDescriptor& descriptor, std::string tool) {
  SeatOptions options;
  options.volume = descriptor.volume;
  options.program = std::move(tool);
  options.host = HostName();
  return options;
}

// The last controller that is registered on any of the LUNs. (Of a volume whose metadata LUNs are
// new, the seat's tells nothing of it.)
Epoch LastRegistered(const OpenVolume& volume) {
  Epoch last;
  for (const auto& lun : volume.luns) {
    if (!lun->has_reservations()) continue;
    const auto registrations = lun->reservations()->ReadKeys();
    if (!registrations.ok()) continue;  // who takes the LUN is told why
    for (const std::uint64_t key : registrations->keys) {
      const auto parts = PartsOfKey(volume.descriptor.volume, key);
      if (parts && parts->controller) last = std::max(last, parts->epoch);
    }
  }
  return last;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ToolSeat>> ToolSeat::Take(
    OpenVolume volume, std::string tool, std::function<void(const absl::Status&)> lost,
    const Clock& clock) {
  const SeatOptions options = OptionsOf(volume.descriptor, std::move(tool));
  auto lun = SeatLun::Open(volume.seat_name(), options.volume);
  if (!lun.ok()) return lun.status();
  if (absl::Status s = (*lun)->ClaimForThisProcess(); !s.ok()) return s;
  auto held = absl::WrapUnique(new ToolSeat);
  Contest& contest = held->contest_;
  contest.volume = std::make_unique<OpenVolume>(std::move(volume));
  contest.lun = *std::move(lun);
  contest.claimed = true;
  // A store that says nothing of its epoch is what the tool has come for.
  const Epoch written = WrittenEpoch(*contest.volume).value_or(Epoch(0));
  auto look = CheckUnserved([&] { return contest.lun->Look(clock); }, options, written);
  if (!look.ok()) return look.status();
  contest.look = *std::move(look);
  HeldSeat::Events events;
  events.lost = lost;
  events.expired = [lost] { lost(absl::AbortedError("its term is over")); };
  const Epoch last = std::max(written, LastRegistered(*contest.volume));
  auto won = WinSeat(contest, NextEpoch(contest, last), options, std::move(events), clock,
                     /*stays_stopped=*/true);
  if (!won.ok()) return won.status();
  held->won_ = *std::move(won);
  WonSeat& seat = held->won_;
  seat.seat->AllowAlways();
  if (absl::Status s = seat.fencer->Take(seat.seat->epoch(), &seat.quarantine_ms); !s.ok())
    return s;
  WaitOut(contest.volume->descriptor.name, seat.quarantine_ms);
  return held;
}

absl::Status ToolSeat::AwaitSent() {
  std::uint64_t quarantine_ms = 0;
  if (absl::Status s = won_.fencer->AwaitSent(&quarantine_ms); !s.ok()) return s;
  WaitOut(contest_.volume->descriptor.name, quarantine_ms);
  return absl::OkStatus();
}

absl::Status ToolSeat::CheckTerm() const {
  return won_.seat->Holds() ? absl::OkStatus() : absl::AbortedError("the seat's term is over");
}

ToolSeat::~ToolSeat() {
  if (won_.seat == nullptr) return;
  if (absl::Status s = won_.seat->GiveUp({}); !s.ok()) {
    spdlog::warn("the next controller waits for the end of this tool's term: {}",
                 std::string(s.message()));
  }
  won_.fencer->Leave();
}

}  // namespace reel::mdc
