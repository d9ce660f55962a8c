// What a journal says, read from where the superblock says that it lies; and the way back, for a
// store that has lost both superblocks: a journal begins with the superblock that it was made for.
// Threads: pure functions.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "mdc/metafs/journal.h"
#include "mdc/metafs/space.h"
#include "mdc/metafs/superblock.h"

namespace reel::metafs {

// REQUIRES of all: `space` has the superblock's regions.

// What the journal says, all of it acknowledged or whole. DATA_LOSS: it is damaged.
absl::StatusOr<JournalState> ReadJournal(Space& space, const Superblock& superblock);
// For repair: what can be read of it.
absl::StatusOr<JournalState> ReadDamagedJournal(Space& space, const Superblock& superblock);

// For repair: the superblock of the newest journal in `pools`, runs of whole pools of which the
// first is the first metadata pool's. Reads all of them. The space has its regions on return.
// NOT_FOUND: there is no journal.
absl::StatusOr<Superblock> FindSuperblock(Space& space, const std::vector<Region>& pools);

}  // namespace reel::metafs
