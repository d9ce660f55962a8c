// Reservations of a block device: changes by the kernel's own calls (linux/pr.h), which reach every
// path of a multipath device; questions by SCSI commands through SG_IO.
//
// A registration is the host's, not the process's: so Register claims the device first, against all
// other processes and against the commands that they have left with the kernel
// (volume/block_lun.h). Where it is not to be had nothing is sent: kNotDone.
//
// A kernel can be asked for a device's keys only from 6.19 on, and Debian 12's headers cannot say
// so: an NVMe device, which takes no SCSI commands, therefore counts as one without reservations.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "volume/reservation.h"
#include "volume/scsi.h"

namespace reel {

class BlockReservations final : public Reservations {
 public:
  using ClaimDevice = std::function<absl::Status()>;
  // `fd` and what `claim` needs outlive it; `name` is for messages.
  BlockReservations(std::string name, int fd, ClaimDevice claim)
      : name_(std::move(name)), fd_(fd), claim_(std::move(claim)) {}
  // Null when the device has none that can be used.
  static std::unique_ptr<BlockReservations> Find(std::string name, int fd, ClaimDevice claim);

  absl::Status ClaimPath() override;
  ReservationResult Register(std::uint64_t key) override;
  ReservationResult Unregister(std::uint64_t key) override;
  ReservationResult Reserve(std::uint64_t key) override;
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override;
  ReservationResult Clear(std::uint64_t key) override;
  absl::StatusOr<Registrations> ReadKeys() override;
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override;
  ReservationResult ResetLun() override;

 private:
  ReservationResult Change(unsigned long request, void* argument, const std::string& what);
  // What of `buffer` was filled; unit attentions are used up inside.
  absl::StatusOr<std::span<const std::byte>> Ask(scsi::ReserveIn action,
                                                 std::span<std::byte> buffer,
                                                 const std::string& what);

  const std::string name_;
  const int fd_;
  const ClaimDevice claim_;
};

}  // namespace reel
