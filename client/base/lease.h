// Until when what a session holds may be used.
//
// Counted from the *sending* of the last answered renewal, less a margin: the controller counts its
// own lease from a later moment, so this one always ends first. The margin pays for clocks that run
// at different speeds and for the time between a check and the submission that follows it. Threads:
// Holds and LeftMs come from any thread; the rest from one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace reel::client {

// A tenth of the lease, at least 20 ms.
constexpr std::uint64_t LeaseMarginMs(std::uint64_t lease_ms) {
  return std::max<std::uint64_t>(lease_ms / 10, 20);
}
// A renewal is sent that often: two may be lost before the lease is.
constexpr std::uint64_t RenewalPeriodMs(std::uint64_t lease_ms) {
  return std::max<std::uint64_t>(lease_ms / 3, 1);
}
// Where a standby may take over, oftener: a new controller serves nobody before all have noticed,
// and one that hears no renewals gives up (docs/failover.md).
constexpr std::uint64_t RenewalPeriodMs(std::uint64_t lease_ms, std::size_t controllers) {
  return std::min<std::uint64_t>(RenewalPeriodMs(lease_ms), controllers > 1 ? 500 : lease_ms);
}
// Where a controller is silent for that long, the others are asked whether one of them serves the
// volume by now, ...
constexpr std::uint64_t SilenceMs() {
  return 250;
}
// ... that often.
constexpr std::uint64_t ScoutMs() {
  return 50;
}
// A controller that leaves a renewal unanswered for that long is taken for dead.
constexpr std::uint64_t RenewalTimeoutMs(std::uint64_t lease_ms) {
  return std::max<std::uint64_t>(lease_ms / 2, 1000);
}

// A LUN path that cannot be mended is tried again after 100 ms, then twice that each time, at most
// 2 s.
constexpr std::uint64_t PathRetryMs(std::uint32_t failures) {
  return std::min<std::uint64_t>(std::uint64_t{100} << std::min<std::uint32_t>(failures, 10),
                                 2'000);
}
// A client gives its session up where a recall has stood still for that long …
constexpr std::uint64_t GiveUpMs(std::uint64_t lease_ms) {
  return lease_ms;
}
// … and a path to a LUN has been lost for that long. Refused, it asks again after as long.
constexpr std::uint64_t PathPatienceMs(std::uint64_t lease_ms) {
  return lease_ms / 5;
}
// A mount waits that long until its paths are registered: longer than the controller needs to fence
// a session that this host has left behind.
constexpr std::uint64_t FirstRegistrationMs() {
  return 30'000;
}
// An unmount waits that long for I/O in flight before it gives the registrations up.
constexpr std::uint64_t LastIoMs() {
  return 2'000;
}

class Lease {
 public:
  // A renewal that was sent at `sent_ms` is answered.
  void Renew(std::uint64_t sent_ms, std::uint64_t lease_ms) {
    const std::uint64_t margin_ms = LeaseMarginMs(lease_ms);
    const std::uint64_t until_ms = sent_ms + (lease_ms > margin_ms ? lease_ms - margin_ms : 0);
    until_ms_.store(std::max(until_ms, until_ms_.load(std::memory_order_relaxed)),
                    std::memory_order_release);
  }
  void Void() { until_ms_.store(0, std::memory_order_release); }
  bool Holds(std::uint64_t now_ms) const { return LeftMs(now_ms) > 0; }
  std::uint64_t LeftMs(std::uint64_t now_ms) const {
    const std::uint64_t until_ms = until_ms_.load(std::memory_order_acquire);
    return until_ms > now_ms ? until_ms - now_ms : 0;
  }

 private:
  std::atomic<std::uint64_t> until_ms_{0};
};

}  // namespace reel::client
