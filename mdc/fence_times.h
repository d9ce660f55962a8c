// How long what has to do with fencing takes: one formula each. The worked timeline is in
// docs/failover.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "volume/iscsi_url.h"

namespace reel::mdc {

// A fence whose outcome is unknown is tried again after 250 ms, then twice that each time, at most
// 5 s.
constexpr std::uint64_t FenceRetryMs(std::uint32_t failures) {
  return std::min<std::uint64_t>(std::uint64_t{250} << std::min(failures, 10U), 5'000);
}

// Where a LUN cannot be reset: for how long what a host had sent before it was cut off may still be
// executing. No initiator waits longer for a command (Linux: 30 s), and a target that has not begun
// with it by then has given it up with its path.
constexpr std::uint64_t QuarantineMs() {
  return std::max<std::uint64_t>(kIscsiCommandTimeoutMs, 30'000);
}

// The controller looks that often whether the LUNs still know it as their reservation's holder.
constexpr std::uint64_t ReservationWatchMs() {
  return 1'000;
}

}  // namespace reel::mdc
