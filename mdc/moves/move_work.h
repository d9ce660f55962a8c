// What the core keeps of the moving of data: the jobs, the one move that is under way, and when the
// next one may begin.
//
// Invariants:
//   1. While `move` is set, its targets are reserved, and unless it is broken the mover holds a
//      token of its span.
//   2. At most one step of a job is an operation under way (`stepping`), and one order is out.
// Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "mdc/moves/job_table.h"
#include "mdc/moves/move.h"
#include "mdc/moves/move_search.h"
#include "mdc/moves/restripe.h"

namespace reel::mdc {

struct MoveWork {
  // So much is moved at once: other hosts that want to write there wait for it, or it was in vain.
  static constexpr std::uint64_t kPieceBytes = 16 * kMiB;
  // After so many tries in vain, a smaller piece, for which others wait.
  static constexpr std::uint32_t kPoliteTries = 3;
  static constexpr std::uint64_t kRetryMs = 100;
  static constexpr std::uint32_t kMaxFailures = 10;
  static constexpr std::uint64_t kFailureMs = 250;
  static constexpr std::uint64_t kLongFailureMs = 10'000;
  static constexpr std::uint64_t kInsistingPieceBytes = 1 * kMiB;
  static constexpr std::uint64_t kWindowBytes = 1 * kGiB;
  static constexpr std::size_t kStepExtents = 2'000;

  JobTable jobs;
  JobId stepping;  // whose next step is an operation under way; 0: none
  std::optional<Move> move;
  std::optional<MovePlan> plan;
  std::vector<CopyOrder> orders;  // to be told
  CopyId last_copy;
  std::optional<RestripeOrder> restripe;  // to be told
  bool map_changes = false;               // it was told, and its outcome is not known
  std::uint32_t failures = 0;             // of LUNs, one after the other
  std::uint32_t starved = 0;              // there was no room, one time after the other
  std::uint32_t tries = 0;                // of the range that comes next, in vain
  std::uint64_t began_ms = 0;             // the move under way
  std::uint64_t not_before_ms = 0;        // the next one

  // The job whose record is needed, though it may be over: that of the move or step under way.
  JobId used() const { return move ? move->job : stepping; }
  bool insists() const { return tries >= kPoliteTries; }
  MoveLimits Limits(std::uint32_t block_bytes, std::uint64_t free_blocks) const {
    const std::uint64_t piece = insists() ? kInsistingPieceBytes : kPieceBytes;
    return {.piece_blocks = std::clamp<std::uint64_t>(free_blocks / 8, 1, piece / block_bytes),
            .window_blocks = kWindowBytes / block_bytes,
            .extents = kStepExtents};
  }
  // After a LUN has failed: false when that was too often.
  bool TryAgain(std::uint64_t now_ms) {
    if (++failures == kMaxFailures) return false;
    not_before_ms = now_ms + std::min(kFailureMs << failures, kLongFailureMs);
    return true;
  }
  // Blocks were freed a moment ago, by the job itself perhaps: false when that was hoped too often.
  bool AwaitRoom(std::uint64_t now_ms) {
    if (++starved > kMaxFailures) return false;
    not_before_ms = now_ms + kRetryMs;
    return true;
  }
  // The job's pace: half of the time where it has no rate of its own.
  void Pace(const v1::JobRecord& job, std::uint64_t moved_bytes, std::uint64_t now_ms) {
    const std::uint64_t took_ms = now_ms - began_ms;
    const std::uint64_t rate = job.rate_bytes();
    not_before_ms = rate == 0 ? now_ms + took_ms : began_ms + moved_bytes * 1000 / rate;
  }
};

}  // namespace reel::mdc
