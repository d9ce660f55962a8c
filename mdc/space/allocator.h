// Free space of the data pools, in volume blocks, and the policy of where new blocks go.
//
// Per pool an index of free runs by address and by size; the store's family 'F' holds the same,
// and every change of the index stages the matching keys in the operation's transaction.
// Invariants:
//   1. Blocks that an operation allocates leave the index at once; Abandon puts them back when it
//   does
//      not commit.
//   2. Blocks that an operation frees enter the index only when its commit is durable (Durable), so
//   that
//      a crash never leaves one block with two owners. Their 'F' keys are in the freeing commit.
//   3. Index ∪ reserved ∪ not yet durable frees ∪ allocated = the pool's blocks, pairwise disjoint.
//   4. Everything that is done is a function of the store and the calls: no clock, no randomness.
//   5. While a dump of the metadata is valid (DumpPin), what is freed of the blocks that it names
//      goes to family 'W': they *wait*, and are neither in the index nor in 'F' until FreeWaiting.
// Reservation windows are memory only: they steer, they own nothing on disk. A window keeps a run
// of free blocks for what one client writes into one directory, and is given up before ENOSPC.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/base/progress.h"
#include "mdc/metadb/txn.h"
#include "mdc/space/free_facts.h"
#include "volume/format/descriptor.h"
#include "volume/format/extent_map.h"

namespace reel::mdc {

struct Run {
  PoolId pool;
  PoolBlock start;
  std::uint64_t length_blocks = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

struct AllocationRequest {
  std::uint64_t length_blocks = 0;  // needed: all of it, or ENOSPC …
  // … but of space so fragmented that it takes more runs, a first part, in so many.
  std::size_t max_runs = kStepExtents;
  std::uint64_t preallocated_blocks = 0;  // wanted beyond it, contiguous with its last run, if free
  std::string affinity;                   // pool affinity; empty for none
  SessionId session;                      // with `directory`: whose window
  InodeNumber directory;                  // 0: no window
  bool has_goal = false;                  // continue at (goal_pool, goal_block) where possible
  bool goal_pool_only = false;            // … and nowhere but in that pool
  PoolId goal_pool;
  PoolBlock goal_block;
  std::optional<Run> within{};  // nowhere but there
  FileBlock file_block;         // of the first block: units are counted from the file's beginning
  bool in_units = false;        // nowhere but at whole units of the pool
  bool affinity_only = false;   // nowhere but in the pools to which the affinity belongs
  bool for_move = false;  // Reserve: of blocks that are there already, which are given back for it
};

// The newest valid dump, which names blocks that were allocated up to that sequence of the volume.
struct DumpPin {
  std::uint64_t dump = 0;  // its number
  Sequence sequence;
};

class Allocator {
 public:
  // Reads the families 'F' and 'W' of the store.
  static absl::StatusOr<std::unique_ptr<Allocator>> Load(const MetaDb& db,
                                                         const VolumeDescriptor& descriptor);
  // Stages the free space of a new volume: everything but `used`.
  static void Format(const VolumeDescriptor& descriptor, const std::vector<Run>& used,
                     WriteBatch& batch);
  virtual ~Allocator() = default;

  // Runs that sum to length_blocks and up to preallocated_blocks more, or max_runs that sum to
  // less. ENOSPC: nothing was taken. EINVAL: an affinity that no pool has falls back to the plain
  // data pools, never an error.
  virtual absl::StatusOr<std::vector<Run>> Allocate(Txn& txn, const AllocationRequest& request) = 0;
  // Frees a run that the transaction's extents no longer name; `birth`: the sequence of the volume
  // by which all of it was allocated, or an earlier one. DATA_LOSS when a block of it is free
  // already: the operation must fail.
  virtual absl::Status Free(Txn& txn, const Run& run, Sequence birth) = 0;

  // From now on blocks that were allocated up to then wait when they are freed; none: none do.
  virtual void SetPin(std::optional<DumpPin> pin) = 0;
  // No valid dump names this run any more, which has waited: it is free. DATA_LOSS as Free.
  virtual absl::Status FreeWaiting(Txn& txn, const Run& run) = 0;
  virtual std::uint64_t waiting_blocks() const = 0;
  // There would have been enough for the current operation if nothing waited.
  virtual bool lacks_waiting() const = 0;

  // The pools are these from now on: what they are said to be, and how large. What they have more
  // than before is in use until it is freed. REQUIRES: all that was there lies where it did.
  virtual void TakeMap(const VolumeDescriptor& descriptor) = 0;
  // From now on nothing is allocated in these runs, and in no others that were named before. What
  // is free there stays so.
  virtual void SetClosed(const std::vector<Run>& runs) = 0;

  // By pool, in blocks: files are laid in units that begin at multiples of it, as far as there is
  // room; of pools beyond the list it is 1. A power of two each. What is allocated stays where it
  // is. It steers only: a block's place may be any.
  virtual void SetUnits(const std::vector<std::uint64_t>& unit_blocks) = 0;
  virtual std::uint64_t unit_blocks(PoolId pool) const = 0;
  virtual std::uint64_t largest_unit_blocks() const = 0;

  // What Allocate would give now: nothing is taken.
  virtual absl::StatusOr<std::vector<Run>> Look(const AllocationRequest& request) = 0;

  // The same, without blocks ahead, kept in memory alone for a later operation, which claims them;
  // taken only where plenty is left. ENOSPC.
  virtual absl::StatusOr<std::vector<Run>> Reserve(const AllocationRequest& request) = 0;
  // While it is set, only blocks that an earlier epoch had reserved are taken (ReserveAgain,
  // Claim): Allocate and Reserve are EAGAIN.
  virtual void SetGrace(bool in_grace) = 0;
  // The same of this run, which an earlier epoch had reserved. INVALID_ARGUMENT: there is no such
  // run of data blocks, or not all of it is free.
  virtual absl::Status ReserveAgain(const Run& run) = 0;
  // The current operation allocates a reserved run.
  virtual void Claim(Txn& txn, const Run& run) = 0;
  // Nobody will.
  virtual void Unreserve(const Run& run) = 0;

  // The current operation committed as `sequence`, or did not: settles what it took and freed.
  virtual void Committed(Sequence sequence) = 0;
  virtual void Abandon() = 0;
  // Frees of commits up to `sequence` may now be allocated again.
  virtual void Durable(Sequence sequence) = 0;
  // A session is gone: its windows are given up.
  virtual void DropWindows(SessionId session) = 0;

  // The stripe sets of data pools, as far as they are open, in their order.
  struct SetSpace {
    Run area;
    std::uint64_t stored_free_blocks = 0;  // closed or not, reserved or not, durable or not
    bool closed = false;                   // nothing is allocated in some of it
  };
  virtual std::vector<SetSpace> sets() const = 0;
  // Of an area of one pool: what the store says is free; how much of it may be allocated now.
  virtual std::uint64_t free_in(const Run& area) const = 0;
  virtual std::uint64_t open_in(const Run& area) const = 0;
  // What can be allocated in the pool now; more will be when commits are durable.
  virtual std::uint64_t usable_blocks(PoolId pool) const = 0;
  virtual bool more_comes() const = 0;
  // Nobody has anything of it, nor will: all of it is closed, free, and was when the last commit
  // became durable.
  virtual bool IsEmpty(const Run& area) const = 0;
  // These blocks are in the map no longer: what of them is free is forgotten.
  virtual void Drop(Txn& txn, const Run& area) = 0;
  // Files with the affinity are to lie in that pool, where it has room.
  virtual bool Belongs(std::string_view affinity, PoolId pool) const = 0;

  virtual std::uint64_t free_blocks(PoolId pool) const = 0;  // as below, of one pool
  // Of data pools; frees not yet durable included. What waits counts: it is free as soon as anybody
  // needs it. What is closed does not.
  virtual std::uint64_t total_free_blocks() const = 0;
  virtual std::uint64_t total_blocks() const = 0;  // of data pools

  // Of one data pool, for people.
  virtual FreeFacts space_of(PoolId pool) const = 0;

  // For tests: INTERNAL says which invariant does not hold.
  virtual absl::Status Check() const { return absl::OkStatus(); }
};

}  // namespace reel::mdc
