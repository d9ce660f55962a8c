// What fsck.reelfs and a scrub find in a metadata store: a walk over all records that says what
// does not fit.
//
// It writes nothing, and sees the store as it is in one moment: what is committed meanwhile is not
// looked at. Every family is read once, in key order, and joined by inode number, in parts of the
// inode numbers. What must be compared across inodes (names, owned blocks) is added up
// (mdc/check/sums.h), and gathered in another reading only where the sums say that something is
// wrong: 16 bytes a directory are kept of a sound store. What holds of one stands in
// docs/format.md; each rule broken is one Problem. Damaged records are reported and passed over, so
// that one of them does not hide the rest. The design: docs/internals/checking.md.
// Threads: one calls; a sink is called by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mdc/metadb/meta_db.h"
#include "mdc/space/allocator.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

struct Problem {
  std::string code;   // stable, for programs: "link-count", "blocks-lost", …
  std::string where;  // "inode 12", "directory 1, entry \"a\"", "pool data, blocks 16 to 31"
  std::string what;   // one line
};

// How a check is made. What it finds does not depend on that.
struct CheckEffort {
  std::size_t threads = 1;
  // Of the facts that it gathers at a time, where something is wrong.
  std::uint64_t round_bytes = 256ull << 20;
  // For tests: the inode numbers at which parts begin, but for the first one; ascending.
  std::optional<std::vector<std::uint64_t>> borders{};
};

struct CheckSink {
  std::function<void(std::string_view phase)> on_phase;
  std::function<void(const Problem&)> on_problem;
};

// How many pieces regular files lie in: 1, 2 to 3, 4 to 15, 16 to 63, 64 to 255, and more.
inline constexpr std::size_t kPieceClasses = 6;

struct CheckTotals {
  std::uint64_t problems = 0;
  std::uint64_t inodes = 0;  // files and directories included
  std::uint64_t files = 0;   // regular ones
  std::uint64_t directories = 0;
  std::uint64_t entries = 0;
  std::uint64_t extents = 0;
  std::uint64_t pieces = 0;  // of files: extents that do not go on where the one before ended
  std::array<std::uint64_t, kPieceClasses> files_by_pieces{};
  std::uint64_t orphans = 0;
  std::uint64_t sessions = 0;
  std::uint64_t data_blocks = 0;  // of all data pools
  std::uint64_t file_blocks = 0;  // in extents
  std::uint64_t free_blocks = 0;
  std::uint64_t waiting_blocks = 0;  // for a dump of the metadata
  bool stopped_in_order = false;     // the volume record says so

  // Adds what was counted in a part of the inodes.
  void Add(const CheckTotals& part);
};

// What a check may cost that runs beside a controller. Both are asked every few hundred records.
struct CheckBounds {
  // So many more records have been looked at; false: it is to stop. It may take its time.
  std::function<bool(std::uint64_t records)> go_on;
  std::uint64_t most_bytes = 0;  // of facts
};

struct SnapshotInput {
  const Snapshot& view;
  const VolumeDescriptor& descriptor;  // REQUIRES: valid, and in force at that moment
  const std::vector<Run>& regions;     // the blocks of the metadata store itself, at that moment
};

// CANCELLED: it was told to stop. RESOURCE_EXHAUSTED: there are more facts than it may keep.
// UNAVAILABLE: the store could not be read, which says nothing about what is in it. What was
// reported before that may be wrong, as not all was seen.
absl::StatusOr<CheckTotals> CheckSnapshot(const SnapshotInput& input, const CheckSink& sink,
                                          const CheckBounds& bounds);

struct CheckInput {
  const MetaDb& db;
  const VolumeDescriptor& descriptor;  // REQUIRES: valid
  const std::vector<Run>& regions;     // the blocks of the metadata store itself
};

// All of it, without bounds; what cannot be read is a problem.
CheckTotals CheckVolume(const CheckInput& input, const CheckSink& sink,
                        const CheckEffort& effort = {});

}  // namespace reel::mdc
