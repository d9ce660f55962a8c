// The volume of every history, as mkfs leaves it: made once in a process, before the first history.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/luns.h"
#include "volume/lun_scan.h"

namespace reel::sim {

// Makes it. Not on a fiber, and before there is a history's scheduler.
absl::Status FormatOnce();

// Disks of its content, for the one history of this process.
std::vector<std::unique_ptr<Disk>> FormattedDisks(bool reservations);

// The volume on paths of host 0, without scanning for it.
OpenVolume OpenOnHost0(const std::vector<std::unique_ptr<Disk>>& disks);

}  // namespace reel::sim
