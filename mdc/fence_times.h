// How long what has to do with fencing takes: one formula each. The worked timeline is in
// docs/failover.md.
#pragma once

#include <algorithm>
#include <cstdint>

namespace reel::mdc {

// A fence whose outcome is unknown is tried again after 250 ms, then twice that each time, at most
// 5 s.
constexpr std::uint64_t FenceRetryMs(std::uint32_t failures) {
  return std::min<std::uint64_t>(std::uint64_t{250} << std::min(failures, 10U), 5'000);
}

// The controller looks that often whether the LUNs still know it as their reservation's holder.
constexpr std::uint64_t ReservationWatchMs() {
  return 1'000;
}

}  // namespace reel::mdc
