#include "volume/lun/device_fault.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace reel {
namespace {

struct Row {
  int error;
  LunFault fault;
};

// As block/blk-core.c makes them of what drivers say (BLK_STS_…). What is not here is final: the
// device has answered, and will answer the same again. (EREMOTEIO: the target refuses, a HARDWARE
// ERROR or DATA PROTECT too; ENODATA: the medium; EILSEQ: protection information; ENOSPC: a thin
// LUN; EINVAL, EOPNOTSUPP, EROFS, EPERM, EBADF: this call.)
constexpr Row kRows[] = {
    {EBADE, LunFault::kFenced},  // RESERVATION CONFLICT

    // Not queued, so not executed.
    {EAGAIN, LunFault::kBusy},   // a path whose state is changing (ALUA), or a full queue
    {EBUSY, LunFault::kBusy},    // the device's resources
    {ENOMEM, LunFault::kBusy},   // the kernel's
    {EREMCHG, LunFault::kBusy},  // device mapper would have it queued again

    // Given up: executed, in part or whole, or not, or still to be. EIO is the kernel's word for
    // all else, and on SCSI mostly says that no path is left (multipath's no_path_retry), that
    // the time was over, or that the LUN was not ready for three minutes.
    {EIO, LunFault::kInDoubt},
    {ENOLINK, LunFault::kInDoubt},  // the transport
    {ETIMEDOUT, LunFault::kInDoubt},
    {ETIME, LunFault::kInDoubt},   // a command's own limit
    {ENODEV, LunFault::kInDoubt},  // offline, which an operator or the transport may end
    {ENXIO, LunFault::kInDoubt},
    {ESHUTDOWN, LunFault::kInDoubt},
    {ECANCELED, LunFault::kInDoubt},
};

}  // namespace

LunFault DeviceFault(int error) {
  for (const Row& row : kRows) {
    if (row.error == error) return row.fault;
  }
  return LunFault::kNone;
}

absl::Status DeviceFailure(int error) {
  const std::string text = std::generic_category().message(error);
  switch (const LunFault fault = DeviceFault(error)) {
    case LunFault::kNone:
      return absl::UnknownError(text);
    case LunFault::kFenced:
      return LunFaultStatus(fault, "RESERVATION CONFLICT: this host has no key registered there");
    case LunFault::kInDoubt:
      return LunFaultStatus(fault, absl::StrCat(text, "; whether it was done is unknown"));
    default:
      return LunFaultStatus(fault, absl::StrCat(text, "; not done"));
  }
}

}  // namespace reel
