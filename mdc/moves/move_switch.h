// The commit that gives a range of a file its new blocks, once these hold what the old ones do.
#pragma once

#include "absl/status/status.h"
#include "mdc/moves/move.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

// Nobody holds a token of the span then, and the old blocks are free once it is durable. ESTALE:
// the file is gone, or has other blocks there by now; nothing is to be done. REQUIRES: what was
// copied is durable on the LUNs, and the token of the mover has not been taken back since it was
// found.
absl::Status SwitchBlocks(OpContext& ctx, const Move& move);

}  // namespace reel::mdc
