// How long LUNs are waited for: one formula each. What comes of them is in docs/failover.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reel {

// How long a command may take, unless the LUN's address says otherwise.
inline constexpr std::uint32_t kIscsiCommandTimeoutMs = 20'000;

// For how long what was sent on a path that is lost may still be executing, where nothing resets
// the LUN. No initiator waits longer for a command (Linux: 30 s), and a target that has not begun
// with it by then has given it up with its path.
constexpr std::uint64_t QuarantineMs() {
  return std::max<std::uint64_t>(kIscsiCommandTimeoutMs, 30'000);
}

// A LUN that says that it cannot now is asked again for so long: six times a command's time, which
// is what Linux takes (a first try and five more). An array's controller has been changed by then.
constexpr std::uint64_t LunBusyLimitMs() {
  return std::uint64_t{6} * kIscsiCommandTimeoutMs;
}
// … at once, then after 10 ms, and twice that each time, at most 1 s.
constexpr std::uint64_t LunBusyPauseMs(std::uint32_t tries) {
  if (tries == 0) return 0;
  return std::min<std::uint64_t>(std::uint64_t{10} << std::min<std::uint32_t>(tries - 1, 10),
                                 1'000);
}

// A request is done again by the path alone, without a look at what allowed it, for no longer than
// the shortest margin that there is (of a lease, of a seat).
constexpr std::uint64_t ResendMs() {
  return 20;
}

// Where a LUN has several portals, one that has been silent for so long is asked …
constexpr std::uint64_t PortalSilenceMs() {
  return 2'000;
}
// … and is lost if it has said nothing for so long after that. Together that is half of the default
// lease: a recall that waits for what was on its way is answered before its host would give up.
constexpr std::uint64_t PortalAnswerMs() {
  return 3'000;
}
// So long a login may take; with several portals the next one is tried then, as it is where the LUN
// says by this one that it cannot now.
constexpr std::uint64_t PortalLoginMs(std::size_t portals) {
  return portals > 1 ? PortalAnswerMs() : 10'000;
}

// A portal that failed is tried after the others for so long.
constexpr std::uint64_t PortalShunMs() {
  return 30'000;
}

// A controller looks so often whether all portals of its LUNs answer.
constexpr std::uint64_t PortalWatchMs() {
  return 30'000;
}

// … and what size they have.
constexpr std::uint64_t SizeWatchMs() {
  return 10'000;
}

// A device whose driver gives one request up so often, although it answers in between, has failed.
inline constexpr std::uint32_t kMaxDoubts = 6;
// The next try comes at once, then after 1 s, 2 s, … 16 s.
constexpr std::uint64_t DoubtPauseMs(std::uint32_t doubts) {
  if (doubts <= 1) return 0;
  return std::uint64_t{1'000} << std::min<std::uint32_t>(doubts - 2, 4);
}

}  // namespace reel
