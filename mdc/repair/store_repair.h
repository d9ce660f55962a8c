// Repairs the bytes of a metadata store, below its records: what fsck.reelfs does before it looks
// at those. What was lost is said, never passed over. Threads: one; nobody else uses the volume.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "mdc/check/checker.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

struct StoreRepairOptions {
  bool rebuild = true;  // also where records are lost by it
  // As StoreOptions::may_write.
  std::function<absl::Status()> may_write{};
};

enum class StoreRepair {
  kWhole,    // every record is as it was
  kRebuilt,  // records are missing, or older than they were: the records need a repair too
};

// `did` is told of each thing done or lost. On return the store can be opened. DATA_LOSS: it cannot
// be repaired, or only with `rebuild`; RESOURCE_EXHAUSTED: there is no room to rebuild it; nothing
// was lost by trying.
absl::StatusOr<StoreRepair> RepairStore(OpenVolume& volume, const StoreRepairOptions& options,
                                        const std::function<void(const Problem&)>& did);

}  // namespace reel::mdc
