// Opens: what keeps an unlinked inode alive.
// Threads: the core thread.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

// Grants a token of the whole file along, with the extents of its first `length_bytes`, where that
// costs nobody anything. False: it does, or it is no regular file; `layout` is as it was.
absl::StatusOr<bool> GrantAtOnce(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                                 std::uint64_t length_bytes, v1::TokenMode mode,
                                 v1::LayoutReply& layout);

absl::Status Open(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Close(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
