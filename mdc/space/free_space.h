// The free space of one data pool: what the store says is free, what may be allocated now, and the
// reservation windows cut out of it.
//
// Invariants: stored = available ∪ windows ∪ frees that are not yet durable, pairwise disjoint.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "mdc/metadb/txn.h"
#include "mdc/space/free_index.h"
#include "volume/base/types.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

class FreeSpace {
 public:
  using FreeRun = FreeIndex::Run;
  struct WindowKey {
    SessionId session;
    InodeNumber directory;
    friend auto operator<=>(const WindowKey&, const WindowKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const WindowKey& key) {
      return H::combine(std::move(h), key.session, key.directory);
    }
  };
  static constexpr std::size_t kMaxWindows = 1024;

  FreeSpace(PoolId pool, const VolumeDescriptor& descriptor);

  const Pool& pool() const { return pool_; }
  PoolId id() const { return id_; }
  std::uint64_t size_blocks() const { return size_blocks_; }
  std::uint64_t free_blocks() const { return stored_.total_blocks(); }
  // What can be allocated now, windows included.
  std::uint64_t usable_blocks() const { return available_.total_blocks() + window_blocks_; }

  // A free run of the store, at start. DATA_LOSS: outside the pool, or overlapping another.
  absl::Status Load(std::uint64_t start, std::uint64_t length_blocks);

  // Changes what the store says is free; stages the keys when `txn` is not null.
  void StoreTake(Txn* txn, FreeRun run);
  void StoreFree(Txn* txn, FreeRun run);
  // True when no block of the run is free, and all lie in the pool.
  bool IsAllocated(FreeRun run) const;

  // Each cuts a run out of what may be allocated (but not out of the store's view). At most `want`
  // blocks that begin at `block`, from free space or from a window of the session.
  std::optional<FreeRun> TakeAt(std::uint64_t block, std::uint64_t want, SessionId session);
  // `need` blocks of the directory's window, which is opened or replaced when too small.
  std::optional<FreeRun> TakeFromWindow(const WindowKey& key, std::uint64_t need);
  // `need` blocks in one run, where `preallocated` more follow if possible.
  std::optional<FreeRun> TakeRun(std::uint64_t need, std::uint64_t preallocated);
  // At most `want` blocks of the largest free run.
  std::optional<FreeRun> TakeLargest(std::uint64_t want);
  // Makes a run allocatable again; it rejoins the window that it was cut from.
  void Release(FreeRun run);

  // Gives windows up: all, or one session's. True when there were any.
  bool DropWindows(std::optional<SessionId> session);

  absl::Status Check(std::uint64_t pending_blocks) const;

 private:
  struct Window {
    FreeRun run;
    std::uint64_t size_blocks = 0;  // when it was opened
    std::uint64_t used = 0;         // order of last use
  };
  struct SetGeometry {
    std::uint64_t first_block;
    std::uint64_t end_block;
    std::uint64_t stripe_blocks;
  };
  std::uint64_t StripeAt(std::uint64_t block) const;
  std::uint64_t AlignUp(std::uint64_t block) const;
  std::optional<FreeRun> Find(std::uint64_t length_blocks) const;
  bool OpenWindow(const WindowKey& key, std::uint64_t need, std::uint64_t last_size_blocks);
  void CloseWindow(const WindowKey& key);
  FreeRun CutWindow(const WindowKey& key, std::uint64_t want);

  PoolId id_;
  Pool pool_;
  std::uint32_t block_bytes_;
  std::uint64_t size_blocks_;
  std::vector<SetGeometry> sets_;
  FreeIndex stored_{/*by_size=*/false};
  FreeIndex available_{/*by_size=*/true};
  absl::flat_hash_map<WindowKey, Window> windows_;
  absl::btree_map<std::uint64_t, WindowKey> window_starts_;
  std::uint64_t window_blocks_ = 0;
  std::uint64_t window_uses_ = 0;
};

}  // namespace reel::mdc
