// The orders to fence that the core gives, and the sessions whose fences are on their way.
//
// Invariants:
//   1. No order is numbered twice: an outcome belongs to one order.
//   2. An order leaves once.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "mdc/base/fence_run.h"
#include "mdc/base/ids.h"
#include "volume/base/types.h"

namespace reel::mdc {

class FenceOrders {
 public:
  // The session is ending, or waits for a key.
  void Add(SessionId session) { sessions_.insert(session); }
  void Remove(SessionId session) { sessions_.erase(session); }
  // By number. A copy: bringing one of them further may end it.
  std::vector<SessionId> sessions() const { return {sessions_.begin(), sessions_.end()}; }

  // The run's victims are to be fenced. REQUIRES: it is due.
  void Order(FenceRun& run) {
    const FenceId id = Next();
    orders_.push_back({.id = id, .victims = run.victims, .lun = run.lun, .drain = run.drain});
    run.Sent(id);
  }
  // So are keys of nobody, on all LUNs. Nobody waits for the outcome.
  void OrderOff(std::vector<std::uint64_t> victims) {
    orders_.push_back({.id = Next(), .victims = std::move(victims), .drain = false});
  }
  std::vector<FenceOrder> Take() { return std::exchange(orders_, {}); }

 private:
  FenceId Next() { return FenceId(++last_); }

  std::uint64_t last_ = 0;
  std::vector<FenceOrder> orders_;
  absl::btree_set<SessionId> sessions_;
};

}  // namespace reel::mdc
