// Reservations of a block device: changes by the kernel's own calls (linux/pr.h), which reach every
// path of a multipath device; questions by SCSI commands through SG_IO.
//
// A kernel can be asked for a device's keys only from 6.19 on, and Debian 12's headers cannot say
// so: an NVMe device, which takes no SCSI commands, therefore counts as one without reservations.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "volume/reservation.h"
#include "volume/scsi.h"

namespace reel {

class BlockReservations final : public Reservations {
 public:
  // Null when the device has none that can be used. `fd` outlives it; `name` is for messages.
  static std::unique_ptr<BlockReservations> Find(std::string name, int fd);

  ReservationResult Register(std::uint64_t key) override;
  ReservationResult Unregister(std::uint64_t key) override;
  ReservationResult Reserve(std::uint64_t key) override;
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override;
  ReservationResult Clear(std::uint64_t key) override;
  absl::StatusOr<Registrations> ReadKeys() override;
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override;
  ReservationResult ResetLun() override;

 private:
  BlockReservations(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}

  ReservationResult Change(unsigned long request, void* argument, const std::string& what);
  // What of `buffer` was filled; unit attentions are used up inside.
  absl::StatusOr<std::span<const std::byte>> Ask(scsi::ReserveIn action,
                                                 std::span<std::byte> buffer,
                                                 const std::string& what);

  const std::string name_;
  const int fd_;
};

}  // namespace reel
