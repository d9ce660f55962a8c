// The policies of jobs: what of a range of a file is to lie elsewhere, and where.
//
//   kind         moves                                     to
//   defragment   what lies in many pieces                  where it lies in half as many, or fewer
//   drain        what lies in the job's areas (closed)     wherever the file may lie
//   restripe     what lies in the slice (closed)           elsewhere in the pool; of one that goes,
//                                                          as drain
//   rebalance    a share of what lies in the job's areas   the emptiest open stripe set of the pool
//   place        what lies in pools of other affinities    a pool of the file's affinity
//   align        units of the pool that do not lie well    whole units of the pool (align.h)
//   compact      what lies in the job's areas              a gap of the same set (compact.h)
// Changes nothing. Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/moves/move.h"
#include "mdc/moves/pieces.h"
#include "mdc/space/allocator.h"
#include "proto/records.pb.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

// Where the pieces of a range of a fragmented file are to lie: found once for all of it, so that
// they continue each other.
struct MovePlan {
  InodeNumber inode;
  TokenSpan span;
  std::vector<Run> runs;  // as long as what is allocated of the span; nobody keeps them
};

struct MoveLimits {
  std::uint64_t piece_blocks = 0;   // moved at once
  std::uint64_t window_blocks = 0;  // of a file, looked at as a whole
  std::size_t extents = 0;          // looked at in a step
};

// The allocated extents of a range of a file, by their place in it; not empty.
struct MoveWindow {
  InodeNumber inode;
  std::string affinity;  // the file's
  std::vector<Extent> extents;
};

struct MoveChoice {
  std::vector<Extent> passed;  // of the window, before `piece`: all of it where there is none
  std::vector<Extent> piece;   // is to be moved, …
  AllocationRequest request;   // … to such blocks; its length and runs are set
  std::optional<MovePlan> plan;
  std::uint64_t kept_blocks = 0;  // of `passed`: were to be moved, but nothing is better for them
};

// `plan`: of the last piece, where this one may follow it. UNIMPLEMENTED: a kind of job that this
// controller does not know.
absl::StatusOr<MoveChoice> ChooseMove(const v1::JobRecord& job, MoveWindow window,
                                      const std::optional<MovePlan>& plan, const MoveLimits& limits,
                                      const VolumeDescriptor& descriptor, Allocator& allocator);

// Reserves the blocks that the extents go to. With `may_shorten`, where there is room for less, for
// the first of them: they are cut to that. Empty: there is none.
std::vector<Run> ReserveTargets(Allocator& allocator, AllocationRequest request, bool may_shorten,
                                std::vector<Extent>& extents);

}  // namespace reel::mdc
