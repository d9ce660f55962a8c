// Writes a new volume onto picked LUNs: what mkfs.reelfs does once everything has been checked.
//
// The order is chosen so that a crash at any instant leaves either no volume or the whole one. A
// volume exists when its seat LUN's label names it and the seat's descriptor is valid
// (volume/format/lun_scan.h), so the seat's label is the last thing written:
// LUNs with reservations are claimed before (tools/mkfs/lun_claim.h), and left so.
//   1. Reserved areas are cleared of what was there, and LUNs without a label get one of no volume.
//   2. The metadata store is made, and synced.
//   3. The descriptor: on all other LUNs, then on the seat.
//   4. The labels with the volume's UUID: on all other LUNs, then on the seat.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "tools/lib/geometry.h"
#include "tools/mkfs/lun_picker.h"
#include "volume/base/env.h"

namespace reel::tools {

// REQUIRES: `luns` are those that `geometry` was computed for, in its order, open for writing and
// claimed. `small_files`: as FormatVolume. Any error leaves LUNs without a volume, which can be
// used again as they are.
absl::Status MakeVolume(const Geometry& geometry, std::vector<std::vector<PickedLun>> luns,
                        WallTime now, bool small_files = true);

}  // namespace reel::tools
