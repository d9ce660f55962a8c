// The seat of a volume as this process holds it: the path to it, the beats, and the watchdog.
//
// Threads: Holds, MayAnswer, Promise, Progress and AllowLong come from any; the rest from one.
// Events are called on threads of this object.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mdc/seat/heartbeat.h"
#include "mdc/seat/seat.h"
#include "mdc/seat/seat_lun.h"
#include "mdc/seat/watchdog.h"

namespace reel::mdc {

class HeldSeat {
 public:
  struct Events {
    std::function<void(const absl::Status&)> lost;  // in time, mostly: the process has to end
    std::function<void()> expired;  // the term is over; the process has to end at once, as it is
    std::function<void()> beaten;
  };
  HeldSeat(std::unique_ptr<SeatLun> lun, const Clock& clock, const SeatOptions& options)
      : clock_(clock), lun_(std::move(lun)), seat_(*lun_, clock, options) {}
  ~HeldSeat() { Abandon(); }

  // Before Begin, the caller's to take the seat with; and to give back, where that failed.
  Seat& seat() { return seat_; }
  SeatLun& lun() { return *lun_; }
  std::unique_ptr<SeatLun> TakeLun() { return std::move(lun_); }

  // From now on it is kept. REQUIRES: it has just been taken.
  void Begin(Events events);

  bool Holds() const { return seat_.Holds(clock_.NowMs()); }
  // As Seat has them; to be kept by whoever answers. Who is watched beats oftener.
  PeerSaid Promise() {
    heartbeat_->Hasten();
    return seat_.Promise();
  }
  bool MayAnswer() const { return seat_.MayAnswer(clock_.NowMs()); }
  void Progress() { heartbeat_->Progress(); }
  void AllowLong() { heartbeat_->AllowLong(); }
  void AllowAlways() { heartbeat_->AllowAlways(); }
  // As Heartbeat has it.
  std::string SlowBeat() const { return heartbeat_->SlowBeat(); }
  TimeHistogram Beats() const { return heartbeat_->Beats(); }
  // As it was when it was taken.
  bool maintenance() const { return maintenance_; }
  Epoch epoch() const { return seat_.epoch(); }

  // Writes down that the volume is, or is no longer, in maintenance; `done` runs on a thread of
  // this object when that is durable.
  void SetMaintenance(bool on, std::function<void(const absl::Status&)> done);

  // Gives it up: nothing that this process sent may be under way. UNAVAILABLE: it was not so
  // written down, or is not known to be; a standby waits till the term is over.
  absl::Status GiveUp(const SeatFarewell& farewell);
  // No more beats, and not a word.
  void Abandon();

 private:
  const Clock& clock_;
  std::unique_ptr<SeatLun> lun_;
  Seat seat_;
  bool maintenance_ = false;
  std::optional<Watchdog> watchdog_;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace reel::mdc
