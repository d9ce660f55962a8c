// The extents of an inode in the store: reading them, and editing them in one operation.
//
// Invariants:
//   1. An inode's extents are disjoint, and none crosses a multiple of kExtentRegionBlocks. The one
//      that covers a block is the last that does not begin after it.
//   2. Neighbours within a region that continue each other in pool and state are one record; its
//      birth sequence is the older one.
//   3. Extents from InodeRecord.truncated_from on are no part of the file: readers do not see them,
//      and an edit comes after their removal, so that they are never exposed when the file grows
//      again. It frees few itself; for many it waits (OpContext::AwaitRemoval).
// A record that breaks these is DATA_LOSS. Threads: the core thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/ops/operation.h"
#include "mdc/space/allocator.h"
#include "volume/format/extent_map.h"

namespace reel::mdc {

inline constexpr std::uint64_t kExtentRegionBlocks = 8192;

// The allocated pieces of [start, start + length), cut to it, in order; what lies between them is a
// hole. At most `limit` of them: then nothing is said of what follows the last one. Sees the store
// only, not what the transaction has staged.
absl::StatusOr<std::vector<Extent>> ReadExtents(Txn& txn, InodeNumber inode, FileBlock start,
                                                std::uint64_t length_blocks, std::size_t limit);

// A change of one inode's extents: Load every range concerned first, edit in memory, Store once at
// the end. Nothing is staged before Store but what the allocator stages itself. One edit per inode
// and operation.
class ExtentEdit {
 public:
  ExtentEdit(OpContext& ctx, InodeNumber inode) : ctx_(ctx), inode_(inode) {}

  // Reads the extents of the range and its neighbours, at most `max_extents` of them (a step's
  // extents, where nothing is said): everything
  // before the returned block is loaded, which is the end of the range where nothing is missing,
  // and beyond its start. May be called for several ranges, before the first edit of each.
  // REQUIRES: start + length <= kEndOfFileBlocks.
  absl::StatusOr<FileBlock> Load(FileBlock start, std::uint64_t length_blocks,
                                 std::optional<std::size_t> max_extents = std::nullopt);
  // How many have been read.
  std::size_t loaded() const { return stored_.size(); }
  // As ReadExtents, of what is loaded, with the edits.
  std::vector<Extent> Allocated(FileBlock start, std::uint64_t length_blocks) const;
  // The loaded extent that ends at or before `block` in the same region or touches it: where
  // allocation should continue.
  std::optional<Extent> Before(FileBlock block) const;

  // Whether there are more now than were read.
  bool Splits() const { return current_.size() > stored_.size(); }

  // Makes the range a hole and frees its blocks; extents that lie in it partly are cut. REQUIRES:
  // all of it is loaded.
  absl::Status Remove(FileBlock start, std::uint64_t length_blocks);
  // Gives the blocks of the run to the file at `start`. INTERNAL when a block of the range has one.
  absl::Status InsertUnwritten(FileBlock start, const Run& run);
  // The range becomes written. ESTALE when a block of it is a hole: nothing is marked.
  absl::Status MarkWritten(FileBlock start, std::uint64_t length_blocks);
  // What is allocated of the range becomes unwritten: it reads as zeros.
  void MarkUnwritten(FileBlock start, std::uint64_t length_blocks);

  // Stages the difference and the record's allocated_blocks. Times and change counter are the
  // caller's.
  absl::Status Store();

 private:
  struct HeldExtent {
    std::uint64_t length_blocks = 0;
    bool written = false;
    PoolId pool;
    PoolBlock pool_block;
    std::uint64_t birth_sequence = 0;
    friend bool operator==(const HeldExtent&, const HeldExtent&) = default;
  };
  using HeldExtents = std::map<FileBlock, HeldExtent>;

  friend absl::StatusOr<bool> RemoveSomeExtents(OpContext& ctx, InodeNumber inode, FileBlock start,
                                                std::uint64_t length_blocks,
                                                std::size_t max_extents);

  absl::Status EndPendingTruncation();
  // Loads at most `max_extents` that end after `start`, and the one behind them; everything before
  // the returned block is loaded.
  absl::StatusOr<FileBlock> LoadRange(FileBlock start, FileBlock end, std::size_t max_extents);
  bool Overlaps(FileBlock start, FileBlock end) const;
  bool Covers(FileBlock start, FileBlock end) const;
  void SplitAt(FileBlock block);
  void MergeWithin(FileBlock start, FileBlock end);
  void SetState(FileBlock start, std::uint64_t length_blocks, bool written);

  OpContext& ctx_;
  const InodeNumber inode_;
  bool begun_ = false;  // a pending truncation has been looked for
  bool ends_truncation_ = false;
  HeldExtents stored_;                                    // as the store has them
  HeldExtents current_;                                   // as they shall be
  std::vector<std::pair<FileBlock, FileBlock>> cleared_;  // what Remove was asked for
  std::uint64_t added_blocks_ = 0;
  std::uint64_t removed_blocks_ = 0;
};

// Frees what the range holds, at most `max_extents` records of it; true when nothing is left.
absl::StatusOr<bool> RemoveSomeExtents(OpContext& ctx, InodeNumber inode, FileBlock start,
                                       std::uint64_t length_blocks, std::size_t max_extents);

}  // namespace reel::mdc
