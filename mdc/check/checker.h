// What fsck.reelfs finds in a metadata store: a walk over all records that says what does not fit.
//
// It writes nothing. Every family is read once, in key order, and joined by inode number; what must
// be compared across inodes (names, owned blocks) is kept as small fixed-size facts: about 32 bytes
// a name and 24 an extent. What holds of a sound store stands in docs/format.md; each rule broken
// is one Problem. Damaged records are reported and passed over, so that one of them does not hide
// the rest. Threads: one; the store may not change meanwhile.
#pragma once

#include <cstdint>
#include <functional>
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

struct CheckSink {
  std::function<void(std::string_view phase)> on_phase;
  std::function<void(const Problem&)> on_problem;
};

struct CheckTotals {
  std::uint64_t problems = 0;
  std::uint64_t inodes = 0;  // files and directories included
  std::uint64_t files = 0;   // regular ones
  std::uint64_t directories = 0;
  std::uint64_t entries = 0;
  std::uint64_t extents = 0;
  std::uint64_t orphans = 0;
  std::uint64_t sessions = 0;
  std::uint64_t data_blocks = 0;  // of all data pools
  std::uint64_t file_blocks = 0;  // in extents
  std::uint64_t free_blocks = 0;
  std::uint64_t waiting_blocks = 0;  // for a dump of the metadata
  bool stopped_in_order = false;     // the volume record says so
};

struct CheckInput {
  const MetaDb& db;
  const VolumeDescriptor& descriptor;  // REQUIRES: valid
  const std::vector<Run>& regions;     // the blocks of the metadata store itself
};

CheckTotals CheckVolume(const CheckInput& input, const CheckSink& sink);

}  // namespace reel::mdc
