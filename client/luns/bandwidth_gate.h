// The gate that all requests to LUNs pass while somebody has reserved bandwidth on the volume: each
// waits for its share of what the controller has dealt (docs/internals/bandwidth.md).
//
//   1. While nothing is dealt, a request looks at one atomic, and nothing is counted.
//   2. A request goes by the share of its file's reservation, else of its tree's, else by the
//      session's own. It takes its turn behind those before it of the same share; a large one goes
//      as soon as its turn comes, and those behind it wait for what it has cost.
//   3. No wait is without end: not longer than kMostWaitMs, nor than the deal counts; what is
//   wanted
//      by a recall, or when this mount ends, does not wait at all. Its cost is taken all the same.
//   4. A new deal counts at once, also for requests that wait.
// Threads: all methods may be called concurrently. Lock order: this, then RecallWatch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "client/base/interrupt.h"
#include "client/luns/recall_watch.h"
#include "proto/session.pb.h"
#include "volume/bandwidth/lun_sets.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"

namespace reel::client {

class BandwidthGate {
 public:
  static constexpr std::uint64_t kMostWaitMs = 5'000;

  // What a request sends to one LUN set.
  struct Load {
    LunSetId set;
    std::uint64_t requests = 0;  // pieces that follow each other on a LUN are one
    std::uint64_t bytes = 0;
  };
  using Loads = absl::InlinedVector<Load, 2>;
  // Whose bytes they are.
  struct Owner {
    std::uint64_t inode = 0;
    std::uint32_t tree = 0;
  };
  struct ShareKey {
    LunSetId set;
    std::uint64_t reservation = 0;
    friend auto operator<=>(const ShareKey&, const ShareKey&) = default;
  };
  // That a request is with the LUNs, as long as this is there.
  class Pass {
   public:
    Pass() = default;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave(shares_);
    }

   private:
    friend class BandwidthGate;
    BandwidthGate* gate_ = nullptr;
    absl::InlinedVector<ShareKey, 2> shares_;
  };

  // Both outlive it.
  BandwidthGate(const Clock& clock, const RecallWatch& recalls)
      : clock_(clock), recalls_(recalls) {}
  BandwidthGate(const BandwidthGate&) = delete;
  BandwidthGate& operator=(const BandwidthGate&) = delete;

  // Takes no lock.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Waits for the turn of the request. EINTR: its caller has given up. REQUIRES: `pass` is new.
  absl::Status Enter(const Loads& loads, const Owner& owner, const Interrupt* interrupt,
                     Pass& pass);

  void Take(const v1::Deal& deal);
  // The session is over: what was dealt was dealt to that.
  void Drop() { Take(v1::Deal()); }
  // From then on nobody waits.
  void Stop();

  // What was sent since the last report; `is_open` is asked of streams' inodes, without the mutex.
  // False: nothing is dealt.
  bool Report(const std::function<bool(std::uint64_t inode)>& is_open, v1::Traffic& report);
  // How often reports are wanted; 0: not.
  std::uint64_t report_ms() const;

 private:
  struct Share {
    double rate = 0;  // cost bytes in a second
    double burst = 0;
    // Both count cost: what was dealt, and what requests took. A request's turn comes when what
    // those before it took was dealt.
    double dealt = 0, taken = 0;
    std::uint64_t at_ms = 0;  // `dealt` is of then
    std::uint32_t waiting = 0, busy = 0;
    // Since the last report.
    std::uint64_t cost = 0, requests = 0;
    std::uint64_t held_ms = 0, busy_ms = 0;
  };
  struct Reserved {
    std::uint64_t reservation = 0;
    std::uint64_t inode = 0;  // of a stream: else 0
  };
  struct Turn {
    ShareKey share;
    double at = 0;
    std::uint64_t cost = 0, requests = 0;
  };
  void Leave(const absl::InlinedVector<ShareKey, 2>& shares);
  std::uint64_t ReservationOf(const Owner& owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What was dealt, and what was waited for, until now.
  static void Advance(Share& share, std::uint64_t now_ms);
  Share* Find(const ShareKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until all have come, or nothing is to be waited for any more. EINTR.
  absl::Status AwaitTurns(std::span<const Turn> turns, const Owner& owner,
                          const Interrupt* interrupt, std::uint64_t began_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For how long the turn has not come; 0: it has.
  std::uint64_t LeftMs(const Turn& turn, std::uint64_t now_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What waited too long is let off.
  void Forgive(const Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Counts(std::uint64_t now_ms) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !shares_.empty() && !stopped_ && now_ms < until_ms_;
  }

  const Clock& clock_;
  const RecallWatch& recalls_;
  std::atomic<bool> on_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<ShareKey, Share> shares_ ABSL_GUARDED_BY(mutex_);
  std::map<LunSetId, std::uint64_t> request_bytes_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, std::uint64_t> by_inode_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint32_t, std::uint64_t> by_tree_ ABSL_GUARDED_BY(mutex_);
  std::vector<Reserved> streams_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t until_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t report_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t reported_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace reel::client
