// What leaves the core with its next turn: messages, and what else its driver is to know.
//
// Invariants:
//   1. Unheard is told once after it was noted.
//   2. A sync is asked for once after it was wished, or while messages wait that are worth one.
// Threads: the core thread.
#pragma once

#include <utility>

#include "mdc/core/core.h"
#include "mdc/core/output_queue.h"
#include "mdc/sessions/durable_waits.h"
#include "mdc/sessions/sync_wish.h"

namespace reel::mdc {

struct Outbox {
  OutputQueue queue;
  SyncWish sync_wish;
  DurableWaits waits;
  std::uint32_t times_unheard = 0;  // no session was heard for long

  // What may leave, moved into `outputs`, and whether a sync is to begin.
  void Take(CoreOutputs& outputs) {
    queue.Take(outputs);
    outputs.times_unheard = std::exchange(times_unheard, 0);
    outputs.wants_sync = sync_wish.Take(queue.AsksForSync());
  }
};

}  // namespace reel::mdc
