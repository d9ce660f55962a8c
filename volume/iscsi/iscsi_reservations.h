// Reservations of an iSCSI LUN, by PERSISTENT RESERVE IN and OUT on the session that carries its
// I/O.
#pragma once

#include "volume/iscsi/iscsi_lun.h"
#include "volume/lun/reservation.h"

namespace reel {

class IscsiReservations final : public Reservations {
 public:
  explicit IscsiReservations(IscsiLun& lun) : lun_(lun) {}

  ReservationResult Register(std::uint64_t key) override;
  ReservationResult Unregister(std::uint64_t key) override;
  ReservationResult Reserve(std::uint64_t key) override;
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override;
  ReservationResult Clear(std::uint64_t key) override;
  absl::StatusOr<Registrations> ReadKeys() override;
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override;
  ReservationResult ResetLun() override;

 private:
  ReservationResult Change(scsi::ReserveOut action, std::uint64_t key, std::uint64_t action_key,
                           const std::string& what);
  ReservationResult ResultOf(const ScsiOutcome& outcome, const std::string& what) const;

  IscsiLun& lun_;
};

}  // namespace reel
