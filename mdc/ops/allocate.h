// fallocate(2): blocks for a range, holes punched, ranges zeroed.
// Threads: the core thread.
#pragma once

#include "absl/status/statusor.h"
#include "mdc/ops/extents.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

absl::Status Allocate(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

// EDQUOT: so much is not given ahead of what is written, so near to a limit.
absl::Status RequireRoomAhead(OpContext& ctx, const v1::InodeRecord& record, std::uint64_t blocks);

// Gives unwritten blocks to every hole of [start, start + length_blocks), and up to
// `preallocated_blocks` after its end where those are holes. The range has been loaded, from the
// end of the extent before it to the end of what is ahead. Returns the end of what has no holes
// now: that of the range, or where it had taken ctx.steps.extents runs, which may be within a hole.
// ENOSPC, EDQUOT: nothing was taken.
absl::StatusOr<FileBlock> FillHoles(OpContext& ctx, ExtentEdit& edit, const v1::InodeRecord& record,
                                    FileBlock start, std::uint64_t length_blocks,
                                    std::uint64_t preallocated_blocks);

}  // namespace reel::mdc
