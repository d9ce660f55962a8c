// Advisory locks: SetLock, TestLock, CancelLock, LockReturn.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

absl::Status SetLock(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status TestLock(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
// Checks the request; the core, which knows who waits, ends the wait.
absl::Status CancelLock(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
// What makes no sense in it is left out: the token comes back in any case.
absl::Status LockReturn(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
