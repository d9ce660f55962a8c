// One range of a file whose blocks go elsewhere while the file is in use (docs/internals/moves.md).
//
//   find ─token, new blocks─► copy ─outcome─► switch ─commit─► old blocks free
//     └── the token is taken back, or the file has changed: the new blocks are given back ──┘
// Threads: plain values.
#pragma once

#include <algorithm>
#include <vector>

#include "mdc/base/ids.h"
#include "mdc/space/allocator.h"
#include "proto/token_ranges.h"
#include "volume/format/extent_map.h"

namespace reel::mdc {

// In the token tables, the controller itself where it moves data. No session has that number.
inline constexpr SessionId kMover{UINT64_MAX};

// Blocks to be copied; both runs are as long.
struct BlockCopy {
  Run from;
  Run to;
};

struct CopyOrder {
  CopyId id;
  std::vector<BlockCopy> copies;
};

struct Move {
  enum class Stage {
    kCopying,    // an order is out
    kSwitching,  // what was copied is durable
  };
  JobId job;
  InodeNumber inode;
  TokenSpan span;
  std::vector<Extent> extents;  // of the span, as they were found, without holes …
  std::vector<Run> targets;     // … and where their blocks go, in this order: as many; reserved
  Stage stage = Stage::kCopying;
  // Nobody else gets a token of the span before it is switched. Else programs go first.
  bool insists = false;
  bool broken = false;  // the token is gone: the file may have changed

  std::uint64_t length_blocks() const {
    std::uint64_t sum = 0;
    for (const Extent& extent : extents) sum += extent.length_blocks;
    return sum;
  }
};

// What has to be copied: of written extents, in pieces that are whole in an extent and in a target.
std::vector<BlockCopy> CopiesOf(const Move& move);

// Calls f(extent, run) for each such piece, also of unwritten ones: the extent is cut to it, the
// run is where it goes. Stops where f is not OK.
template <typename F>
absl::Status ForEachPiece(const Move& move, F f) {
  std::size_t target = 0;
  std::uint64_t used = 0;  // of that target
  for (Extent extent : move.extents) {
    while (extent.length_blocks > 0) {
      const Run& run = move.targets[target];
      const std::uint64_t length = std::min(extent.length_blocks, run.length_blocks - used);
      Extent piece = extent;
      piece.length_blocks = length;
      if (absl::Status s = f(piece, Run{run.pool, run.start + used, length}); !s.ok()) return s;
      extent.file_block = extent.file_block + length;
      extent.pool_block = extent.pool_block + length;
      extent.length_blocks -= length;
      used += length;
      if (used == run.length_blocks) {
        ++target;
        used = 0;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace reel::mdc
