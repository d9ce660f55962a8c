// Attributes of an inode and of the volume: getattr, setattr (sizes too), readlink, statfs, sync.
// Threads: the core thread.
#pragma once

#include "absl/status/statusor.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

absl::Status GetAttr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status SetAttr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
// LayoutCommit.attributes. The errno for which they are refused, 0 where they were set; or why the
// whole operation is.
absl::StatusOr<int> SetAttributesAlong(OpContext& ctx, InodeNumber inode, const v1::SetAttr& set,
                                       v1::InodeRecord& record);
absl::Status ReadLink(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status StatFs(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Accessed(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
// Nothing by itself: its reply waits for all that was done before (core_run.cc).
absl::Status Sync(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
