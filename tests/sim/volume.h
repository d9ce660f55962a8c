// The volumes of histories, as mkfs leaves them: made once in a process, before the first history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/luns.h"
#include "volume/format/lun_scan.h"

namespace reel::sim {

// One pool for all, of two LUNs; or with it a pool for data alone, of two more, and a LUN that
// nobody has. Those two make a stripe set, or one each.
enum class Shape : std::uint8_t { kOnePool, kTwoPools, kTwoSets };
inline constexpr char kDataPool[] = "more";  // the second one

// Makes them. Not on a fiber, and before there is a history's scheduler.
absl::Status FormatOnce();

// Disks of that volume's content, for the one history of this process.
std::vector<std::unique_ptr<Disk>> FormattedDisks(Shape shape, bool reservations);

// Another volume of the same name over the one that is there, as mkfs.reelfs --force leaves it:
// LUNs with reservations are reserved by its key.
void RemakeVolume(const std::vector<std::unique_ptr<Disk>>& disks);

// The volume of one pool on paths of host 0, without scanning for it; `remade`: the one that
// RemakeVolume made.
OpenVolume OpenOnHost0(const std::vector<std::unique_ptr<Disk>>& disks, bool remade = false);

// What lies where only files can: not in the metadata store, nor before it.
std::vector<std::byte> DataOn(const Disk& disk);

}  // namespace reel::sim
