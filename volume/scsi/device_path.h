// One way by which the kernel takes the commands for a block device's reservations: the device
// itself, or one path of a multipath device. Changes go by the kernel's own calls (linux/pr.h),
// questions by SCSI commands through SG_IO.
//
// Threads: as `control`.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "volume/lun/reservation.h"
#include "volume/scsi/scsi.h"

namespace reel {

class DevicePath {
 public:
  // ioctl(2) on the device: its result, and errno where that is -1.
  using Control = std::function<int(unsigned long request, void* argument)>;
  // What `control` needs outlives it; `name` is for messages.
  DevicePath(std::string name, Control control)
      : name_(std::move(name)), control_(std::move(control)) {}

  // One of the kernel's calls; unit attentions are used up inside. `what` is for messages.
  ReservationResult Change(unsigned long request, void* argument, const std::string& what) const;
  // What of `buffer` was filled; unit attentions are used up inside. UNIMPLEMENTED: the device
  // cannot be asked for that, ever.
  absl::StatusOr<std::span<const std::byte>> Ask(scsi::ReserveIn action,
                                                 std::span<std::byte> buffer,
                                                 const std::string& what) const;
  // As Reservations::ResetLun.
  ReservationResult ResetLun() const;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  Control control_;
};

}  // namespace reel
