#include "mdc/seat/held_seat.h"

#include <utility>

namespace reel::mdc {

void HeldSeat::Begin(Events events) {
  maintenance_ = seat_.maintenance();
  watchdog_.emplace(seat_, clock_, std::move(events.expired));
  Heartbeat::Events beats;
  beats.lost = std::move(events.lost);
  beats.beaten = std::move(events.beaten);
  beats.claim = [this] { return lun_->ClaimForThisProcess().ok(); };
  beats.flush = [this] { return lun_->Flush(); };
  heartbeat_.emplace(seat_, clock_, std::move(beats));
}

void HeldSeat::Abandon() {
  if (heartbeat_) heartbeat_->Stop();
  if (watchdog_) watchdog_->Disarm();
}

void HeldSeat::SetMaintenance(bool on, std::function<void(const absl::Status&)> done) {
  heartbeat_->Change([on](Seat& seat) { seat.SetMaintenance(on); }, std::move(done));
}

absl::Status HeldSeat::GiveUp(const SeatFarewell& farewell) {
  Abandon();
  const ArbitrationResult result = seat_.GiveUp(farewell);
  absl::Status status =
      result.done() ? absl::OkStatus() : absl::UnavailableError(result.status.message());
  if (status.ok() && farewell.stopped) status = lun_->Flush();
  lun_->Unregister();
  return status;
}

}  // namespace reel::mdc
