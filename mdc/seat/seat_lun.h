// A path of its own to the seat LUN, for looks and beats: what the rest of the controller asks of
// that LUN does not hold it up.
//
// On iSCSI it is another session with the target, so it is registered by itself, under the key that
// the controller's own path has there; on a block device both are one path to the kernel, which
// knows it already. Invariant: once registered, it is never opened anew; its loss is the seat's.
// No look is one without a look at the label: the block is the volume's as long as the LUN is.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mdc/seat/arbitration_port.h"
#include "mdc/seat/seat.h"
#include "volume/lun/lun.h"

namespace reel::mdc {

class SeatLun final : public ArbitrationPort {
 public:
  // `name` as OpenLun has it. `volume` is whose keys count.
  static absl::StatusOr<std::unique_ptr<SeatLun>> Open(const std::string& name, const Uuid& volume);
  ~SeatLun() override;

  // A whole look: block and reservation.
  absl::StatusOr<SeatLook> Look(const Clock& clock);

  absl::StatusOr<std::string> Read() override;
  ArbitrationResult Write(const ArbitrationBlock& block) override;
  void Wait(std::uint64_t ms) override;

  // What was written is durable.
  absl::Status Flush() { return lun_->Flush(); }
  // Makes writes by this path possible: `key` is the controller's on the seat LUN, which holds the
  // reservation by it.
  absl::Status Register(std::uint64_t key);
  // Takes that away. Best effort.
  void Unregister();
  // The LUN's claim against other processes of this machine, for as long as this object lives.
  absl::Status ClaimForThisProcess() { return lun_->ClaimForThisProcess(); }
  bool has_reservations() const { return reservations_ != nullptr; }

 private:
  SeatLun(std::unique_ptr<Lun> lun, const Uuid& volume);
  absl::Status Retry(const absl::Status& status);
  absl::StatusOr<std::string> ReadOnce();
  absl::Status LookAtReservation(SeatLook& look);

  const std::unique_ptr<Lun> lun_;
  const Uuid volume_;
  Reservations* reservations_ = nullptr;  // null: none, or not usable
  std::uint64_t key_ = 0;                 // that this path is registered with
  bool registered_ = false;               // or shares a path that is
};

}  // namespace reel::mdc
