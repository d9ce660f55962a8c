// Measures the points of a sweep on LUNs, by what a client does with a read or a write: the stripe
// map, and one batch of requests over all LUNs. Thread rule: called by one thread; a point has a
// thread for each I/O in flight.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/sweep/sweep_grid.h"
#include "tools/bench/sweep/sweep_luns.h"

namespace reel::bench {

// One run of a point: bytes a second. Writes are flushed to the media within the time.
absl::StatusOr<double> MeasurePoint(const SweepLuns& luns, const SweepPoint& point, double seconds);

// All points in each run, one run after the other. Ends with an error as soon as a LUN is no longer
// blank. INVALID_ARGUMENT, before anything is written, where a point does not fit on the LUNs.
absl::StatusOr<std::vector<SweepResult>> RunSweep(const SweepLuns& luns,
                                                  const SweepOptions& options);

}  // namespace reel::bench
