// The free space of one data pool: what the store says is free, what may be allocated now, and the
// reservation windows cut out of it.
//
// Invariants: stored = available ∪ windows ∪ closed ∪ frees that are not yet durable, pairwise
// disjoint.
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
#include "mdc/space/free_facts.h"
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
  // Blocks for a file. Where the pool has a unit, they are to lie at as many blocks behind a
  // multiple of it as in the file; and what is less than they all is to end at one.
  struct Wish {
    std::uint64_t blocks = 0;
    std::uint64_t file_block = 0;  // where the first of them is in the file
    bool in_units = false;         // nothing else will do
  };
  struct SetGeometry {
    std::uint64_t first_block;
    std::uint64_t end_block;
    std::uint64_t stripe_blocks;
    bool is_gap = false;
    std::uint64_t free = 0;  // as the store says: blocks
  };

  FreeSpace(PoolId pool, const VolumeDescriptor& descriptor);
  // As Allocator.
  void TakeMap(const VolumeDescriptor& descriptor);
  void SetClosed(std::vector<FreeRun> runs);
  // Files are laid in units of so many blocks, a power of two (Allocator::SetUnits).
  void SetUnit(std::uint64_t unit_blocks) { unit_ = unit_blocks; }
  std::uint64_t unit_blocks() const { return unit_; }

  const Pool& pool() const { return pool_; }
  const std::vector<SetGeometry>& sets() const { return sets_; }
  PoolId id() const { return id_; }
  std::uint64_t capacity_blocks() const { return pool_.capacity_blocks(); }
  std::uint64_t free_blocks() const { return stored_.total_blocks(); }
  std::uint64_t closed_blocks() const { return closed_.total_blocks(); }
  // What can be allocated now, windows included.
  std::uint64_t usable_blocks() const { return available_.total_blocks() + window_blocks_; }
  // Without what is reserved.
  FreeFacts space() const {
    const auto largest = available_.Largest();
    return {.free = usable_blocks(),
            .windows = window_blocks_,
            .closed = closed_blocks(),
            .largest_run = largest ? largest->length_blocks : 0,
            .classes = available_.classes()};
  }

  // A free run of the store, at start. DATA_LOSS: outside the pool, or overlapping another.
  absl::Status Load(std::uint64_t start, std::uint64_t length_blocks);

  // As Allocator.
  std::uint64_t free_in(FreeRun area) const { return SumIn(stored_, area); }
  std::uint64_t open_in(FreeRun area) const { return SumIn(available_, area); }
  bool IsEmpty(FreeRun area) const;
  void Drop(Txn& txn, FreeRun area);

  // Changes what the store says is free; stages the keys when `txn` is not null.
  void StoreTake(Txn* txn, FreeRun run);
  void StoreFree(Txn* txn, FreeRun run);
  // Nothing is allocated in some of it.
  bool AnyClosed(FreeRun run) const;
  // True when no block of the run is free, and all lie in the pool.
  bool IsAllocated(FreeRun run) const;

  // Each cuts a run out of what may be allocated (but not out of the store's view). At most the
  // wish's blocks, that begin at `block`, from free space or from a window of the session.
  std::optional<FreeRun> TakeAt(std::uint64_t block, const Wish& wish, SessionId session);
  // All of a file's first blocks, of the directory's window, which is opened or replaced when too
  // small.
  std::optional<FreeRun> TakeFromWindow(const WindowKey& key, std::uint64_t need);
  // All in one run, where `preallocated` more follow if possible.
  std::optional<FreeRun> TakeRun(const Wish& wish, std::uint64_t preallocated);
  // At most all, of the largest free run.
  std::optional<FreeRun> TakeLargest(const Wish& wish);
  // At most all, that lie in the area: of the run there that fits best, or of the largest. Looks at
  // each run of the area.
  std::optional<FreeRun> TakeWithin(FreeRun area, const Wish& wish);
  // Makes a run allocatable again; it rejoins the window that it was cut from.
  void Release(FreeRun run);

  // Gives windows up: all, or one session's. True when there were any.
  bool DropWindows(std::optional<SessionId> session);

  absl::Status Check(std::uint64_t pending_blocks) const;

 private:
  struct Window {
    FreeRun run;                    // empty: it is used up, and the next one is larger
    std::uint64_t size_blocks = 0;  // when it was opened
    std::uint64_t used = 0;         // order of last use
  };
  static std::vector<FreeRun> PartsIn(const FreeIndex& index, FreeRun area);
  static std::uint64_t SumIn(const FreeIndex& index, FreeRun area);
  // The store says that these are free, or not any more.
  void Count(FreeRun run, bool free);
  // Makes a run allocatable, where it is not closed.
  void Give(FreeRun run);
  std::uint64_t StripeAt(std::uint64_t block) const;
  std::uint64_t AlignUp(std::uint64_t block) const;
  std::optional<FreeRun> Find(const Wish& wish) const;
  // What of a free run the wish is given: at most its blocks.
  std::optional<FreeRun> PartFor(FreeRun run, const Wish& wish) const;
  bool OpenWindow(const WindowKey& key, std::uint64_t need, std::uint64_t last_size_blocks);
  void CloseWindow(const WindowKey& key);
  // It begins at a multiple of the unit, for another file. False: there is no such window any more.
  bool AlignWindow(const WindowKey& key);
  FreeRun CutWindow(const WindowKey& key, std::uint64_t want);

  PoolId id_;
  Pool pool_;
  std::uint32_t block_bytes_;
  std::uint64_t size_blocks_;
  std::uint64_t unit_ = 1;
  std::vector<SetGeometry> sets_;
  FreeIndex stored_{/*by_size=*/false};
  FreeIndex available_{/*by_size=*/true};
  FreeIndex closed_{/*by_size=*/false};  // what is free where nothing is allocated, …
  std::vector<FreeRun> closed_runs_;     // … which is here, by address
  absl::flat_hash_map<WindowKey, Window> windows_;
  absl::btree_map<std::uint64_t, WindowKey> window_starts_;
  std::uint64_t window_blocks_ = 0;
  std::uint64_t window_uses_ = 0;
};

}  // namespace reel::mdc
