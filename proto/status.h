// absl::Status ⇄ Linux errno ⇄ gRPC: one table, so that an error means one thing from the MDC's
// core to the application's errno.
//
// An error made here carries its exact errno as a payload; the canonical code is the nearest one.
// Threads: pure functions.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace reel {

// REQUIRES: errno_value > 0.
absl::Status ErrnoStatus(int errno_value, std::string_view message = {});

// 0 for OK; the exact errno where the status carries one, else the nearest for its code (EIO at
// worst).
int ErrnoOf(const absl::Status& status);

}  // namespace reel
