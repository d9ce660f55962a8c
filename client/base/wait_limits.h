// How many requests of a mount wait at a time for other hosts, and what has to be there beside them
// so that what other hosts wait for goes on. Why that is enough:
// docs/internals/deadlock-freedom.md.
#pragma once

#include <cstdint>

namespace reel::client {

// Asynchronous requests that the kernel has on their way: asynchronous direct I/O, which may wait
// for another host's token, shares these with the write-back of pages, for which a recall waits.
inline constexpr std::uint32_t kMaxFuseBackground = 2'048;
// Workers: one for each request of the kernel that is served.
inline constexpr std::uint32_t kMaxFuseWorkers = 2'048;
// Direct requests that are served at a time, and those that are parked without a worker
// (client/fuse/request/direct_gate.h).
inline constexpr std::uint32_t kMaxDirectServed = 1'024;
inline constexpr std::uint32_t kMaxDirectParked = 512;
// What they leave to others, write-back among them.
static_assert(kMaxDirectServed + kMaxDirectParked + 512 <= kMaxFuseBackground);
static_assert(kMaxDirectServed + 1'024 <= kMaxFuseWorkers);
// Where all those are taken, and a recall waits in the kernel, for so long nothing moves before
// the parked ones are given up: before the session would be, for the recall's sake (60 s).
inline constexpr std::uint32_t kDirectStallMs = 30'000;

// Requests over io_uring have entries, of which each CPU's queue has its own: as many as there may
// be workers, and some more. On machines with very many CPUs each queue has fewer, for the kernel
// keeps half a KiB for each.
inline constexpr std::uint32_t UringEntriesOfAQueue(std::uint32_t queues) {
  constexpr std::uint32_t kMostOfAll = 65'536, kMost = kMaxFuseWorkers + 512, kLeast = 256;
  const std::uint32_t share = kMostOfAll / (queues > 0 ? queues : 1);
  return share > kMost ? kMost : share < kLeast ? kLeast : share;
}
// What holds of `limit` where a queue has so many entries.
inline constexpr std::uint32_t ShareOfEntries(std::uint32_t limit, std::uint32_t entries) {
  constexpr std::uint32_t kFull = UringEntriesOfAQueue(1);
  return limit * (entries < kFull ? entries : kFull) / kFull;
}
static_assert(kMaxDirectServed + kMaxDirectParked + 1'024 <= UringEntriesOfAQueue(1));
static_assert(kMaxFuseBackground + 512 <= UringEntriesOfAQueue(1));
// Threads that have an entry of their own, of all CPUs: from the beginning, and because it was used
// while such a thread was idle (client/fuse/uring/uring_server.h).
inline constexpr std::uint32_t kMaxUringResidents = 256;
inline constexpr std::uint32_t kMaxUringAdopted = 1'024;

// Requests without a slot on their way to the controller at once: those that may wait there for
// other hosts, and those that never do. It refuses more than 4,096. (Each that waits comes from a
// worker, or looks ahead for one.)
inline constexpr std::uint64_t kMaxWaitingSent = 2'048;
inline constexpr std::uint64_t kMaxBriefSent = 1'024;
static_assert(kMaxWaitingSent + kMaxBriefSent <= 4'096);

}  // namespace reel::client
