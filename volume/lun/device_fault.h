// What the kernel's errno says of a request to a block device, in one table.
//
// The kernel has tried by itself before it gives a request up: five times on SCSI, on every path of
// a multipath device. Threads: pure.
#pragma once

#include "absl/status/status.h"
#include "volume/lun/lun_fault.h"

namespace reel {

// REQUIRES: error > 0.
LunFault DeviceFault(int error);

// With the kernel's text, and the word of the fault.
absl::Status DeviceFailure(int error);

}  // namespace reel
