// Operations that take more than one step (mdc/base/progress.h), and have another one to take.
//
// Invariants:
//   1. An operation that is here is marked as unfinished and as fetching, so nothing else runs it.
//   2. Steps are taken in the order in which they became due; a turn takes kTurnSteps at most.
// Bounds: by what sessions may have under way. Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "mdc/tables/session_table.h"

namespace reel::mdc {

class StepQueue {
 public:
  // With each tick and each sync.
  static constexpr std::size_t kTurnSteps = 2;

  // The operation's next step is due. REQUIRES: it is not here.
  void Add(const PendingRef& op) {
    op->unfinished = true;
    op->fetching = true;
    due_.push_back(op);
  }
  // Those whose turn it is, no longer unfinished but still marked as fetching; cancelled ones, too.
  std::vector<PendingRef> TakeTurn() {
    const auto end = due_.begin() + static_cast<std::ptrdiff_t>(std::min(kTurnSteps, due_.size()));
    std::vector<PendingRef> turn(due_.begin(), end);
    due_.erase(due_.begin(), end);
    for (const PendingRef& op : turn) op->unfinished = false;
    return turn;
  }
  bool empty() const { return due_.empty(); }
  // The session is gone: its operations take no further step.
  void CancelOf(SessionId session) {
    for (const PendingRef& op : due_) {
      if (op->session == session) op->cancelled = true;
    }
  }

 private:
  std::deque<PendingRef> due_;
};

}  // namespace reel::mdc
