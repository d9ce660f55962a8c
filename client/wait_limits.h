// How many requests of a mount wait at a time for other hosts, and what has to be there beside them
// so that what other hosts wait for goes on. Why that is enough: docs/locking.md, "No ring of
// waits".
#pragma once

#include <cstdint>

namespace reel::client {

// Asynchronous requests that the kernel has on their way: asynchronous direct I/O, which may wait
// for another host's token, shares these with the write-back of pages, for which a recall waits.
inline constexpr std::uint32_t kMaxFuseBackground = 1'024;
// Workers: one for each request of the kernel that waits. All asynchronous ones, and as many
// others.
inline constexpr std::uint32_t kMaxFuseWorkers = 2 * kMaxFuseBackground;
// Requests without a slot on their way to the controller at once; it refuses more than 4,096. Those
// that wait there for other hosts come from a worker each, or look ahead for one, so renewals and
// returns of tokens find room.
inline constexpr std::uint64_t kMaxUnslotted = 3'072;
static_assert(kMaxUnslotted >= kMaxFuseWorkers + kMaxFuseWorkers / 2);

}  // namespace reel::client
