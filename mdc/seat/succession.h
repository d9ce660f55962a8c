// Who of those that could take a seat may: what administrators want, where mdc/seat says what is
// safe. They want a volume stopped, or no standby to take it over by itself (maintenance).
// Threads: a pure function.
#pragma once

#include "absl/status/status.h"
#include "mdc/seat/seat.h"

namespace reel::mdc {

// Whether this process may take a seat that looks so; `ordered`: an administrator told it to.
// FAILED_PRECONDITION: no, and what ends that.
absl::Status MayFollow(const SeatLook& look, const SeatOptions& options, bool ordered);

}  // namespace reel::mdc
