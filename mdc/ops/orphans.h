// Work that is too large for one commit, or has to wait for a last close: the inodes of family 'O'.
//
// An inode gets there when its last name goes while it is open, cached by a token, or large, and
// when a truncation frees many extents. Its blocks go in steps of at most ctx.steps.reaped extents,
// each a commit of its own. Threads: the core thread.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

// Work is left to be done on the inode once nobody has it open.
void PutOnOrphanList(OpContext& ctx, InodeNumber inode);

// The inode has lost its last name. REQUIRES: its record says nlink 0 and is marked changed. Frees
// it at once where nobody has it open or cached and it is small; else puts it on the orphan list.
absl::Status DropInode(OpContext& ctx, InodeNumber inode);

// Frees the blocks from `size_bytes` on, as many as one step may; a rest goes on the orphan list.
// The size itself is the caller's.
absl::Status DropTail(OpContext& ctx, InodeNumber inode, std::uint64_t size_bytes);

// One step of the work on an orphan, as an operation without a request (session 0): the core runs
// it for the inodes of ctx.effects.orphans, for every 'O' key after a start, and after the last
// close of an unlinked inode. What was truncated goes at once, whoever has the inode open or holds
// tokens: nobody reads or writes it any more. Tokens on an unlinked inode are recalled before the
// rest goes (ctx.blocked.on). `frees_ahead`: an inode that has a name, and need not be on the list,
// loses the blocks ahead of its end, unless a session holds a token of it.
enum class Reaped {
  kMore,  // another step is due
  kOpen,  // nothing is to be done before the last close
  kDone,  // it is on the list no more
};
absl::StatusOr<Reaped> ReapOrphan(OpContext& ctx, InodeNumber inode, bool frees_ahead = false);

}  // namespace reel::mdc
