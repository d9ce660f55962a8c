// The metadata store of one volume: an ordered map of keys to records, on RocksDB on metafs.
//
// Writes become visible at once and durable later: Apply puts a batch into the store's memory and
// its unsynced log; Sync makes everything applied before it durable with one LUN write. Whoever
// answers a client waits for the sequence it saw (mdc/core). Invariants:
//   1. A batch is durable wholly or not at all, and only after every batch applied before it.
//   2. Sequences grow with every batch and never go back, across restarts and epochs.
//   3. After any error of Apply or Sync the store refuses everything: the process ends, recovery
//      decides (a failed or unknown commit is never reported as either).
// Threads: Apply and reads with Tier::kMemory come from one core thread; Sync from one commit
// thread; reads with Tier::kAll from any thread, concurrently with all of those.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metadb/key_range.h"
#include "volume/base/types.h"

namespace rocksdb {
class Env;
class EventListener;
}  // namespace rocksdb

namespace reel::mdc {

enum class Tier {
  kMemory,  // answer only from memory: block cache and memtables
  kAll,     // read the LUNs where needed
};

// One atomic change: puts and deletes, applied in order.
class WriteBatch {
 public:
  void Put(std::string key, std::string value) {
    changes_.push_back({std::move(key), std::move(value), false});
  }
  void Delete(std::string key) { changes_.push_back({std::move(key), {}, true}); }
  // After this batch, no key from `from` on and before `to` is in the store: scans need not look.
  void Cleared(std::string from, std::string to) {
    cleared_.push_back({std::move(from), std::move(to)});
  }
  bool empty() const { return changes_.empty(); }

  struct Change {
    std::string key;
    std::string value;
    bool remove = false;
  };
  const std::vector<Change>& changes() const { return changes_; }
  struct Range {
    std::string from;
    std::string to;
  };
  const std::vector<Range>& cleared() const { return cleared_; }

 private:
  std::vector<Change> changes_;
  std::vector<Range> cleared_;
};

enum class Found {
  kYes,
  kNo,
  // Tier::kMemory only: ask again after a read with Tier::kAll. A scan that comes upon many removed
  // keys, of which it is not known yet that they are, ends so, too.
  kNotInMemory,
};

// A forward cursor over keys with a common prefix; sees a consistent snapshot.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual bool Valid() const = 0;
  virtual void Next() = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  // Not OK after an error; kNotInMemory is reported by not_in_memory(), not here.
  virtual absl::Status status() const = 0;
  virtual bool not_in_memory() const = 0;
};

// The store as it was in one moment. What has been changed or removed since is kept for it, so it
// should not live longer than it must. What it reads does not stay in the cache, which belongs to
// those who wait. Threads: any one at a time, beside all else. REQUIRES: its MetaDb outlives it.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  // Reads the LUNs where needed. The value of `key`, into `value` when found.
  virtual absl::StatusOr<Found> Get(std::string_view key, std::string* value) const = 0;
  // All entries from key `from` on (inclusive) and before `to`; empty: to the end. REQUIRES: it
  // ends before the snapshot.
  virtual std::unique_ptr<Cursor> ScanRange(std::string_view from, std::string_view to) const = 0;
  // All entries whose key begins with `prefix`.
  std::unique_ptr<Cursor> Scan(std::string_view prefix) const {
    return ScanRange(prefix, EndOfPrefix(prefix));
  }
  // How many bytes the store has for these keys, about: for who parts work. REQUIRES: `to` is not
  // empty.
  virtual std::uint64_t ApproximateBytes(std::string_view from, std::string_view to) const = 0;
};

// Where a scan begins.
enum class ScanFrom {
  kAt,          // at the first key that is not before the one given
  kAtOrBefore,  // at the last key that is not after it, if there is one with the prefix; else as
                // kAt
};

class MetaDb {
 public:
  struct Options {
    std::uint64_t cache_bytes = 512ull << 20;  // block cache
    std::uint64_t write_buffer_bytes = 64ull << 20;
    bool read_only = false;  // for fsck: replays the log in memory, writes nothing
    bool create = false;     // for mkfs; fails if a store exists
    std::shared_ptr<rocksdb::EventListener> listener{};  // of the environment's; may be null
  };

  // Opens the store on `env` (metafs's; it outlives the MetaDb). DATA_LOSS names what is damaged.
  static absl::StatusOr<std::unique_ptr<MetaDb>> Open(rocksdb::Env* env, const Options& options);
  // Removes what an Open, a flush or a compaction that was cut off has left over: for a store that
  // has little room left. (Open does so, too, but at its end, when it has written what it needs.)
  static absl::Status RemoveLeftovers(rocksdb::Env* env, const Options& options);
  ~MetaDb();

  // The value of `key`, into `value` when found.
  absl::StatusOr<Found> Get(std::string_view key, std::string* value, Tier tier) const;
  // Entries from `start` on (inclusive) while their key begins with `prefix`. It takes no time in
  // proportion to what was removed there (mdc/metadb/empty_ranges.h).
  std::unique_ptr<Cursor> Scan(std::string_view prefix, std::string_view start, Tier tier,
                               ScanFrom from = ScanFrom::kAt) const;

  // As the store is now, with whole batches. Takes no time; from any thread.
  std::unique_ptr<Snapshot> TakeSnapshot() const;

  // Makes the batch visible, not yet durable. Returns its sequence.
  absl::StatusOr<Sequence> Apply(const WriteBatch& batch);
  // Makes everything applied before the call durable; returns the sequence that is now durable.
  absl::StatusOr<Sequence> Sync();

  // Rewrites the tables without what was removed, so that its space is free again. Takes as long as
  // reading and writing all of the store; returns early, CANCELLED, when `cancelled` becomes true.
  // From any thread, beside everything else. RESOURCE_EXHAUSTED: there was no room for it.
  absl::Status Compact(std::atomic<bool>& cancelled);
  // What that needs at a time, beside what is there.
  std::uint64_t CompactionBytes() const;
  // Keys removed since the store was opened.
  std::uint64_t removals() const;

  Sequence last_applied() const;

  // Walks every table's checksum (fsck), by so many threads. DATA_LOSS names what is damaged.
  absl::Status VerifyChecksums(std::size_t threads = 1) const;

  // Counters for reeladm stat: block cache hits and misses, bytes compacted, stall time.
  std::vector<std::pair<std::string, std::uint64_t>> Counters() const;

 private:
  struct Engine;  // RocksDB; the simulator links one of its own, in memory
  explicit MetaDb(std::unique_ptr<Engine> engine);

  const std::unique_ptr<Engine> engine_;
};

}  // namespace reel::mdc
