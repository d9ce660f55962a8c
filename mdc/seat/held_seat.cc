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

PeerSaid HeldSeat::Promise() {
  heartbeat_->Hasten();
  const SeatOptions& options = seat_.options();
  const std::uint64_t answer_ms = AnswerMs(options.seat_ms), for_ms = PromiseMs(options.seat_ms);
  const bool promises = seat_.beat_took_ms() <= PromptBeatMs(answer_ms);
  const std::uint64_t beaten_ms = seat_.beaten_ms();  // before the clock
  const std::uint64_t now_ms = clock_.NowMs();
  // (Those who call it do so one at a time; and a later one lasts longer.)
  if (promises) promised_until_ms_.store(now_ms + for_ms, std::memory_order_seq_cst);
  return {.promise = {.holder = options.holder,
                      .epoch = seat_.epoch(),
                      .answer_ms = promises ? answer_ms : 0,
                      .beat_ms = WatchedBeatMs(options.seat_ms),
                      .for_ms = for_ms},
          .beat_age_ms = now_ms - beaten_ms};
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
