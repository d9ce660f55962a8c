// What a job moves next: looks through the extents of files from where it has come to, some at a
// time, until there is a range that would lie better elsewhere (move_choice.h).
//
// Reads the store by the transaction, so a search may miss and is run again (mdc/metadb/txn.h).
// Changes nothing. Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/moves/move_choice.h"
#include "mdc/ops/operation.h"
#include "proto/records.pb.h"

namespace reel::mdc {

struct MoveFound {
  // From where the next search goes on, when nothing is to be moved before it, or once that was.
  InodeNumber next_inode;
  FileBlock next_block;
  std::uint64_t looked_blocks = 0;  // of files, passed over or in `extents`
  std::uint64_t kept_blocks = 0;    // were to be moved, but there is no better place for them
  bool ended = false;               // there is nothing behind it
  // What is to be moved; empty: nothing of what this step looked at.
  InodeNumber inode;
  std::vector<Extent> extents;
  AllocationRequest request;  // of the blocks that they go to
  std::optional<MovePlan> plan;
};

// `plan`: of the last piece, where this one may follow it.
absl::StatusOr<MoveFound> FindMove(OpContext& ctx, const v1::JobRecord& job,
                                   const std::optional<MovePlan>& plan, const MoveLimits& limits);

}  // namespace reel::mdc
