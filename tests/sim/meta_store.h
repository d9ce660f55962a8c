// The metadata store of a simulated volume: what MetaDb keeps, in memory, behind a log of its own
// on metafs. Linked in place of mdc/metadb/meta_db.cc (meta_store.cc), so a history needs no
// RocksDB; the store's own file system, its segments, epochs and syncs are the real ones on
// simulated LUNs.
//
// A new MetaDb reads the log that CURRENT names, writes what that says into a log of its own, and
// moves CURRENT there. A read that is content with memory is sometimes told that the key is not
// there. Threads: as MetaDb says, on fibers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

namespace reel::sim {

// What the stores of a history tell: the sessions that durably are there, as the latest of them
// knows.
struct StoreEvents {
  struct SessionFacts {
    int host = 0;
    bool evicted = false;
    friend bool operator==(const SessionFacts&, const SessionFacts&) = default;
  };
  using Sessions = std::map<std::uint64_t, SessionFacts>;
  std::function<void(const Sessions&)> on_sessions;
  // Hosts with a sync of the store under way.
  std::map<int, int> syncing;
  int instances = 0;
  std::uint64_t last_applied = 0;  // by the latest
  std::uint64_t lost_batches = 0;  // that were not durable when their controller ended

  static StoreEvents& Get();
};

}  // namespace reel::sim
