// How an inode comes into being: its record, and what it inherits of the directory that it is made
// in. Threads: the core thread.
#pragma once

#include "absl/status/statusor.h"
#include "mdc/ops/entries.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

struct NewInode {
  InodeNumber inode;
  v1::InodeRecord* record = nullptr;
};

// The inode that `create` describes, of the caller's, with its group, mode and ACLs as `parent`
// passes them on. It has one link, and no name yet: the caller gives it one, or takes the link
// away. REQUIRES: type and symbolic link are valid.
absl::StatusOr<NewInode> MakeInode(OpContext& ctx, const v1::Create& create,
                                   const Directory& parent);

}  // namespace reel::mdc
