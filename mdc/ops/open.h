// Opens: what keeps an unlinked inode alive.
// Threads: the core thread.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

absl::Status Open(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Close(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
