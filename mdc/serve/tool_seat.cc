#include "mdc/serve/tool_seat.h"

#include <utility>

#include "absl/memory/memory.h"
#include "mdc/seat/seat_check.h"
#include "spdlog/spdlog.h"
#include "volume/base/host_name.h"

namespace reel::mdc {
namespace {

SeatOptions OptionsOf(const VolumeDescriptor& descriptor, std::string tool) {
  SeatOptions options;
  options.volume = descriptor.volume;
  options.program = std::move(tool);
  options.host = HostName();
  return options;
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
  auto won = WinSeat(contest, NextEpoch(contest, written), options, std::move(events), clock,
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
