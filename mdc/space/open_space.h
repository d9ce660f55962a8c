// Which blocks of the data pools files may have, and which only wait for that: what a later map
// gave a pool is *opened* when all sessions know the map (docs/failover.md).
//
// The volume record keeps by pool up to where it is open (VolumeRecord.open_blocks). What is not
// open is in no file, is not free, and is nobody's. Pools without data are open as a whole: no
// client sees them. Threads: pure functions.
#pragma once

#include <vector>

#include "mdc/space/allocator.h"
#include "proto/records.pb.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

// The volume as it is open: pools without the sets that are not. (One that is not open at all has
// none, which no descriptor on a LUN says.)
VolumeDescriptor OpenPart(const VolumeDescriptor& descriptor, const v1::VolumeRecord& volume);
// The same by the record that the store has; the whole volume where that cannot be read.
VolumeDescriptor OpenPart(const VolumeDescriptor& descriptor, const MetaDb& db);
// What is not open.
std::vector<Run> UnopenedRuns(const VolumeDescriptor& descriptor, const v1::VolumeRecord& volume);
// All of it is, from now on.
void SetAllOpen(const VolumeDescriptor& descriptor, v1::VolumeRecord& volume);

}  // namespace reel::mdc
