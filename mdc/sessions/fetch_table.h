// What reader threads fetch of the store for operations that missed it, and who waits for that.
//
// Invariants:
//   1. A miss is under way once at most: who misses the same waits for the same ticket.
//   2. An operation that waits is marked as fetching, so nothing else runs it.
//   3. No ticket is given twice.
// Bounds: by what a session may have under way. Threads: the core thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mdc/metadb/txn.h"
#include "mdc/tables/session_table.h"

namespace reel::mdc {

class FetchTable {
 public:
  // The miss is to be fetched. `waiter` waits for it; null: nobody does yet.
  void Add(Miss miss, const PendingRef& waiter);
  // What was added and is to be sent to the reader threads.
  std::vector<Fetch> TakeFetches();
  // That is fetched: who waited for it, in the order in which they came, still marked as fetching;
  // cancelled ones, too. None where there is no such ticket (any more).
  std::vector<PendingRef> Done(TicketId ticket);
  // The session is gone: what waits of it is not to run.
  void CancelOf(SessionId session);

 private:
  struct Ticket {
    std::string key;
    std::vector<PendingRef> waiters;
  };

  absl::flat_hash_map<TicketId, Ticket> tickets_;
  absl::flat_hash_map<std::string, TicketId> by_key_;
  std::uint64_t last_ = 0;
  std::vector<Fetch> fetches_;
};

}  // namespace reel::mdc
