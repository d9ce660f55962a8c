// Which chunk belongs to whom. A chunk is the unit in which metafs gives space to files.
//
// A chunk is fixed (the superblock's), used by a file, or free; and it is *claimed* when this epoch
// has durably said that it may write there. Only claimed chunks are ever taken. A chunk that an
// earlier epoch claimed and may still have writes under way to is *old*: no log is put there in
// this epoch, and a table only where nothing else is left. Invariants:
//   1. fixed, used and free chunks partition the space; the free ones are in exactly one of the
//      five sets below.
//   2. Unclaimed free chunks never sink below the epoch reserve by a claim, so that the next epoch
//      finds room for its logs where this one could not write. An epoch that starts may go down to
//      half of that: what the one before it left is all that it can count on.
//   3. Tables leave the log reserve to logs, of chunks that are not old.
//   4. A running epoch takes nothing of the start reserve, for which old chunks do: from it, one
//      that starts writes the tables that it makes of the logs of the one before. It spares but
//      half of the log reserve meanwhile, as much as invariant 2 leaves it.
//   5. Tables that compactions make leave the flush reserve to those that flushes make: a
//      compaction that finds no room can be done later, a flush cannot.
// Threads: externally synchronised. Memory only; MetaFs makes claims durable.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"

namespace reel::metafs {

struct ChunkRun {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t end() const { return first + count; }
  friend bool operator==(const ChunkRun&, const ChunkRun&) = default;
};

std::uint64_t CountChunks(const std::vector<ChunkRun>& runs);
// Appends, merging with the last run where it continues it.
void AppendRun(std::vector<ChunkRun>& runs, ChunkRun run);

enum class ChunkUse {
  kTable,       // any claimed chunk, old ones last
  kCompaction,  // the same, for a table that a compaction makes
  kLog,         // never an old one; one that holds only zeros or whole frames if there is one
};

class Chunks {
 public:
  struct Reserves {
    std::uint64_t epoch = 0;
    std::uint64_t log = 0;
    std::uint64_t start = 0;
    std::uint64_t flush = 0;
  };
  // `epoch` only spreads the claims of different epochs over the space. It is starting.
  Chunks(std::uint64_t total, std::uint64_t fixed, Reserves reserves, std::uint64_t epoch);
  // The epoch has what it needs to run: from now on it leaves the next one's reserve whole.
  void Started() { starting_ = false; }

  // DATA_LOSS when a chunk of the run is out of the space, fixed, or used already; nothing then
  // changed.
  absl::Status Use(ChunkRun run);
  // While a store is loaded: chunks that another epoch may still write to. Used ones become old
  // when they are freed. REQUIRES: in the space, unclaimed.
  void MarkOld(ChunkRun run);
  void Grow(std::uint64_t total);

  // Takes `count` claimed chunks, few runs if possible. False, and nothing taken, when there are
  // too few, or better ones can be claimed. `unclean` gets the runs whose content is neither zeros
  // nor whole frames.
  bool Take(std::uint64_t count, ChunkUse use, std::vector<ChunkRun>& runs,
            std::vector<ChunkRun>& unclean);
  // Gives back used chunks. `framed`: they hold only zeros and whole frames.
  void Free(const std::vector<ChunkRun>& runs, bool framed);

  // Picks up to `count` unclaimed chunks, which leave the free sets until Claim; old ones only for
  // tables, when there are no others for them. Empty when the reserves forbid it.
  std::vector<ChunkRun> PlanClaim(std::uint64_t count, ChunkUse use);
  // The planned claim is durable: its chunks may be taken.
  void Claim(const std::vector<ChunkRun>& planned);
  // Everything that was claimed or planned to be, used or not.
  std::vector<ChunkRun> claimed() const;

  std::uint64_t total() const { return state_.size(); }
  // Chunks that a Take can still get, after further claims.
  std::uint64_t available(ChunkUse use) const;
  std::uint64_t used() const { return used_; }

 private:
  struct State {
    bool taken = false;  // fixed, used or in a planned claim
    bool claimed = false;
    bool old = false;
    bool framed = false;
  };
  std::set<std::uint64_t>& SetOf(std::uint64_t chunk);
  // How many may be claimed, of any kind.
  std::uint64_t Claimable() const;
  // What each use can get, by where it comes from.
  struct Room {
    std::uint64_t claimed = 0;  // not old
    std::uint64_t fresh = 0;    // not old, to be claimed first
    std::uint64_t old = 0;      // claimed
    std::uint64_t retired = 0;  // old, to be claimed first
    std::uint64_t all() const { return claimed + fresh + old + retired; }
  };
  static void Keep(std::uint64_t reserve, Room& room);
  Room RoomFor(ChunkUse use) const;
  void TakeFrom(std::set<std::uint64_t>& from, std::uint64_t count, std::vector<ChunkRun>& runs);

  Reserves reserves_;
  bool starting_ = true;
  std::uint64_t cursor_;  // where the next claim begins to look
  std::uint64_t used_ = 0;
  std::vector<State> state_;
  std::set<std::uint64_t> fresh_;    // unclaimed
  std::set<std::uint64_t> retired_;  // unclaimed, old
  std::set<std::uint64_t> ready_;    // claimed
  std::set<std::uint64_t> framed_;   // claimed, holds only zeros and whole frames
  std::set<std::uint64_t> table_;    // claimed, old: for tables only
};

}  // namespace reel::metafs
