// The paths of a multipath device of the device mapper, each of which is a block device of its own
// (sysfs: /sys/dev/block/MAJOR:MINOR/slaves).
//
// Threads: any.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "volume/scsi/device_path.h"

namespace reel {

// Empty: `device` is no multipath device, or a path of it cannot be opened here (a container that
// has only the device itself). One that the kernel does not reach now is among them: all that is
// asked of it fails with EIO. `sys` and `dev` are where sysfs and the devices are.
std::vector<DevicePath> MultipathPaths(dev_t device, const std::string& sys = "/sys",
                                       const std::string& dev = "/dev");

}  // namespace reel
