// One history: a cluster, its programs and its faults, all from one seed, and the verdict.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/records.pb.h"
#include "tests/sim/faults.h"

namespace reel::sim {

// What happened, for the record of what the histories cover. Plain numbers: it goes through a pipe.
struct Coverage {
  std::array<std::uint32_t, kFaults> faults{};
  std::array<std::uint32_t, kMoments> moments{};
  std::uint64_t operations = 0, unanswered = 0;
  std::uint64_t cells_checked = 0, locks = 0, page_hits = 0, attr_hits = 0, name_hits = 0,
                listing_hits = 0, pages_invalidated = 0, prefetched_reads = 0,
                prefetched_layouts = 0, frames_ahead = 0, files_ahead = 0, frame_reads = 0,
                attributes_read = 0;
  std::uint64_t evictions = 0, recalls = 0, repetitions = 0, delegated = 0, replayed = 0,
                blocked = 0, misses = 0, reaped = 0, broken_moves = 0, scrubs = 0, map_changes = 0;
  std::array<std::uint64_t, v1::JobKind_ARRAYSIZE> moved{};  // blocks, by the kind of job
  std::uint64_t lost_batches = 0, fences = 0, lost_blocks = 0, refused_writes = 0;
  // Of controllers.
  std::uint64_t terms = 0, takeovers = 0, lost_claims = 0, unknowns = 0;
  std::uint64_t refused_controller_writes = 0;
  std::uint64_t early = 0, store_failures = 0, seats_lost = 0, expiries = 0, failed_starts = 0;
  std::uint64_t undecided = 0;
  std::uint64_t without_space = 0;
  std::uint64_t simulated_ms = 0, switches = 0;
};

struct Outcome {
  std::uint64_t hash = 0;  // of all that happened
  Coverage coverage;
  std::vector<std::string> violations;
};

// `verbose`: prints what happens. Once in a process: what a crashed machine held stays there.
Outcome RunHistory(std::uint64_t seed, bool verbose);

}  // namespace reel::sim
