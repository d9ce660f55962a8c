// The volume of every history, as mkfs leaves it: made once in a process, before the first history.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/luns.h"
#include "volume/format/lun_scan.h"

namespace reel::sim {

// Makes it. Not on a fiber, and before there is a history's scheduler.
absl::Status FormatOnce();

// Disks of its content, for the one history of this process.
std::vector<std::unique_ptr<Disk>> FormattedDisks(bool reservations);

// Another volume of the same name over the one that is there, as mkfs.reelfs --force leaves it; no
// reservation is left.
void RemakeVolume(const std::vector<std::unique_ptr<Disk>>& disks);

// The volume on paths of host 0, without scanning for it; `remade`: the one that RemakeVolume made.
OpenVolume OpenOnHost0(const std::vector<std::unique_ptr<Disk>>& disks, bool remade = false);

// What lies where only files can: not in the metadata store, nor before it.
std::vector<std::byte> DataOn(const Disk& disk);

}  // namespace reel::sim
