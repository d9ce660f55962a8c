// What unlink, rmdir and rename share: whether an entry may go, and what happens to its inode.
// Threads: the core thread.
#pragma once

#include "mdc/ops/entries.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

// EPERM when the inode that the entry names is immutable or append-only.
absl::StatusOr<v1::InodeRecord*> InodeToUnlink(OpContext& ctx, const Entry& entry);
// Takes one name off the inode, whose entry is gone; a directory's only one. The last: DropInode.
absl::Status TakeName(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record);

}  // namespace reel::mdc
