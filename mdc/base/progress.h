// How far an operation has come that takes more than one step.
//
// No step takes longer than StepSizes::extents or kStepLevels directories do, whatever users have
// built. What a step changed is committed before the next one, without the reply; so a crash leaves
// a part done, and the request, which nobody has answered, begins anew in the next epoch: what is
// done already is done again without effect. Threads: the core thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "volume/base/types.h"

namespace reel::mdc {

inline constexpr std::size_t kStepExtents = 500;
inline constexpr std::size_t kReapExtents = 1000;
// Where space has no extents yet, records of so many blocks are made of it.
inline constexpr std::uint64_t kRecordBlocks = 8192;
inline constexpr std::uint64_t kStepLevels = 4096;
// Of what a session that has ended held, and of recalls that are sent again: in a turn of the core.
inline constexpr std::size_t kStepHoldings = 4096;

// At most so many extents are changed by a step of an operation, or freed by one of a removal.
struct StepSizes {
  std::size_t extents = kStepExtents;
  std::size_t reaped = kReapExtents;
  std::uint64_t blocks() const { return extents * kRecordBlocks; }
};

// How much of a change of extents is done.
struct Progress {
  std::size_t item = 0;  // LayoutCommit: which of its ranges
  FileBlock block{0};    // what lies before it is done
};

// How far up the look for a loop has come: from `from` to `at`, none is `ancestor`. That is so
// until a directory gets another parent; then it begins anew.
struct LoopWalk {
  InodeNumber from{0};
  InodeNumber ancestor{0};
  InodeNumber at{0};
  std::uint64_t levels = 0;
  std::uint64_t moves = 0;  // directories that had got another parent when it began
  std::uint32_t lost = 0;   // times that it had come far, and began anew
};
using LoopWalks = std::array<LoopWalk, 2>;  // an exchange moves two directories

}  // namespace reel::mdc
