// What fsck.reelfs --repair does to the records of a metadata store: it makes each rule of
// docs/format.md hold again, and keeps all that can be kept.
//
// It does not follow the checker's list but goes over the families as the checker does, works out
// what each record should be from all the others, and writes where that differs: so it may be
// stopped anywhere and run again, and a second run finds nothing to do. What decides:
//   1. What two records contradict each other in is settled by the one that more records agree
//      with: the entry by name over the one by cookie, the type that content and names agree on.
//   2. Blocks with two owners stay with the metadata store, else with the extent that was born
//      last: its allocation found them free. The other file gets a hole there. It is never given a
//      copy: the bytes may be another user's, and a hole shows nobody old bytes.
//   3. An inode that no name leads to goes to /lost+found as "#NUMBER". Only one that was unlinked
//      (link count 0, and on the orphan list) is freed.
//   4. The free index is what nothing else owns; counts are counted.
//   5. No session survives: a client must not go on with extents that may have changed.
// Not repaired, because it is no damage: records of a newer format, or of another volume.
// Threads: one; nobody else uses the store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/check/checker.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/space/allocator.h"
#include "volume/base/env.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

struct RepairSink {
  std::function<void(std::string_view phase)> on_phase;
  std::function<void(const Problem&)> on_action;  // `what` says what was done
};

// REQUIRES: durably, no mark on the volume's LUNs names a dump of the metadata any more: what is
// free afterwards may be what a dump names.
struct RepairInput {
  MetaDb& db;
  const VolumeDescriptor& descriptor;  // REQUIRES: valid
  const std::vector<Run>& regions;     // the blocks of the metadata store itself
  Epoch epoch;                         // no MDC has served in a later one
  WallTime now;                        // for what is made anew
};

// How many actions were taken; all of them are durable. DATA_LOSS: the store could not be read to
// its end, so that nothing may be concluded from what is not there. FAILED_PRECONDITION: records of
// a newer format or another volume; nothing was changed.
absl::StatusOr<std::uint64_t> RepairVolume(const RepairInput& input, const RepairSink& sink);

}  // namespace reel::mdc
