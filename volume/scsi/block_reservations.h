// Reservations of a block device: changes by the kernel's own calls (linux/pr.h), which reach every
// path of a multipath device; questions by SCSI commands through SG_IO.
//
// A registration is the host's, not the process's: so Register claims the device first, against all
// other processes and against the commands that they have left with the kernel
// (volume/scsi/block_lun.h). Where it is not to be had nothing is sent: kNotDone.
//
// A kernel can be asked for a device's keys only from 6.19 on, and Debian 12's headers cannot say
// so: an NVMe device, which takes no SCSI commands, therefore counts as one without reservations.
// Nothing else does but a device that says that it knows none: one that does not answer just now
// may have them, and would be used without a fence for as long as it is open.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "volume/lun/reservation.h"
#include "volume/scsi/lun_times.h"
#include "volume/scsi/scsi.h"

namespace reel {

class BlockReservations final : public Reservations {
 public:
  using ClaimDevice = std::function<absl::Status()>;
  // ioctl(2) on the device: its result, and errno where that is -1.
  using Control = std::function<int(unsigned long request, void* argument)>;
  // What `control` and `claim` need outlives it; `name` is for messages.
  BlockReservations(std::string name, Control control, ClaimDevice claim)
      : name_(std::move(name)), control_(std::move(control)), claim_(std::move(claim)) {}
  // Null when the device says that it has none that can be used. One that cannot say it just now is
  // asked for `patience`, as long as time may mend that; then, the error.
  static absl::StatusOr<std::unique_ptr<BlockReservations>> Find(
      std::string name, Control control, ClaimDevice claim,
      std::chrono::milliseconds patience = std::chrono::milliseconds(kIscsiCommandTimeoutMs));

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
  // What of `buffer` was filled; unit attentions are used up inside. UNIMPLEMENTED: the device
  // cannot be asked for that, ever.
  absl::StatusOr<std::span<const std::byte>> Ask(scsi::ReserveIn action,
                                                 std::span<std::byte> buffer,
                                                 const std::string& what);

  const std::string name_;
  const Control control_;
  const ClaimDevice claim_;
};

}  // namespace reel
