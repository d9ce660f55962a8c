// What a session's early replies have promised: how many, how many are durable, and what was lost.
//
// Every early reply has a number; they grow by one. Invariants:
//   1. `confirmed` and `last` only grow within a session; all up to `confirmed` is durable, or lost
//      and counted in `losses`.
//   2. A loss is reported to every Sync that knew of fewer losses, and to at least one Sync.
//   3. One Sync that nobody waits for is on its way at a time.
// Threads: the numbers may be read by any thread; they change under the session's mutex, or on its
// receiving thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace reel::client {

class EarlyReplies {
 public:
  // An early reply of this number has come, or is made by the client itself.
  void Promised(std::uint64_t number) { last_.store(std::max(number, last_.load())); }
  void ConfirmedUpTo(std::uint64_t number) { confirmed_.store(number); }
  std::uint64_t last() const { return last_.load(); }
  bool Confirmed(std::uint64_t number) const { return confirmed_.load() >= number; }

  void NoteLoss() {
    ++losses_;
    unreported_ = true;
  }
  std::uint64_t losses() const { return losses_.load(); }
  // Whether a Sync that knew of so many losses must fail; the last one is then reported.
  bool TakeLoss(std::uint64_t known) {
    const bool unreported = unreported_.exchange(false);
    return unreported || losses_ != known;
  }

  // The number of the early reply that is being handed over; 0: none is. On the receiving thread.
  void SetHandedOver(std::uint64_t number) { handed_over_ = number; }
  std::uint64_t handed_over() const { return handed_over_; }

  // True: a Sync is to be sent, as none is on its way.
  bool BeginSync() { return !syncing_.exchange(true); }
  void EndSync() { syncing_ = false; }

 private:
  std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint64_t> confirmed_{0};
  std::atomic<std::uint64_t> losses_{0};
  std::atomic<bool> unreported_{false};  // of the last loss no Sync has heard
  std::atomic<bool> syncing_{false};
  std::uint64_t handed_over_ = 0;
};

}  // namespace reel::client
