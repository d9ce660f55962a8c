// Makes the records of a metadata store from a dump: what mkfs.reelfs --restore does once it has
// seen that every mark on the LUNs names that dump.
//
// Numbers go on far above all that may have been given out since the dump: inodes, sessions,
// epochs, sequences. The dump stays the one that is kept, so its blocks wait when they are freed,
// and it can be restored again. Threads: one; nobody else uses the store.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "mdc/backup/dump_reader.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/space/allocator.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

// More than any volume gives out between a dump and the loss of its metadata.
inline constexpr std::uint64_t kNumbersSkippedByRestore = std::uint64_t{1} << 40;
// Epochs stand in reservation keys by their low bits, where there is less room.
inline constexpr std::uint64_t kEpochsSkippedByRestore = std::uint64_t{1} << 16;

struct RestoreInput {
  MetaDb& db;                          // empty
  const VolumeDescriptor& descriptor;  // REQUIRES: valid
  const std::vector<Run>& regions;     // the blocks of the metadata store itself
  Epoch epoch;                         // no controller has served in a later one
};

// Loads the records behind the head, which was read, and makes the free index. Durable on return.
// DATA_LOSS: the dump is damaged, or an extent in it lies where the volume has no blocks for files.
absl::StatusOr<DumpEnd> RestoreRecords(const DumpHead& head, DumpReader& reader,
                                       const RestoreInput& input);

}  // namespace reel::mdc
