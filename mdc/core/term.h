// The time in which this controller serves the volume, from Begin to its end: one epoch.
//
// Invariants:
//   1. The epoch is above that of each controller before, and does not change.
//   2. Sequences of the volume grow from epoch to epoch: each adds what the volume has counted
//      before to the store's own.
// Threads: the core thread.
#pragma once

#include <cstdint>

#include "volume/base/types.h"

namespace reel::mdc {

struct Term {
  Epoch epoch;
  std::uint64_t sequence_base = 0;
  std::uint64_t started_ms = 0;
  std::uint64_t loaded_ms = 0;        // all that it keeps in memory is there
  std::uint64_t serving_ms = 0;       // all have claimed what they hold; 0: not yet
  std::uint64_t directory_moves = 0;  // directories that have got another parent in it

  Sequence VolumeSequence(Sequence sequence) const { return sequence + sequence_base; }
};

}  // namespace reel::mdc
