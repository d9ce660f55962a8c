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

// A session is evicted that has not answered a recall for so long, if its client says that nothing
// has moved for half of it, or says nothing. What it does itself in that case comes long before
// (GiveUpMs in client/base/lease.h). Twice that where it waits for other sessions itself.
constexpr std::uint64_t RecallLimitMs(std::uint64_t lease_ms) {
  return 6 * lease_ms;
}
// … and whatever its client says after that long.
constexpr std::uint64_t RecallMostMs(std::uint64_t lease_ms) {
  return 60 * lease_ms;
}
// A client that has given its session up reads nothing any more; names that its kernel was shown it
// may use for another second (KernelNames::kKeptMs, or the margin where the lease is short).
constexpr std::uint64_t GaveUpMs(std::uint64_t lease_ms) {
  return std::min<std::uint64_t>(lease_ms, 1'500);
}

// The controller looks that often whether the LUNs still know it as their reservation's holder.
constexpr std::uint64_t ReservationWatchMs() {
  return 1'000;
}

}  // namespace reel::mdc
