// Runs loads on the sides in turns: in each run every side once, right after one another, so that
// whatever else the machine does falls on all of them. Thread rule: called by one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/load.h"
#include "tools/bench/report.h"
#include "tools/bench/side.h"
#include "tools/bench/start_times.h"

namespace reel::bench {

struct RunOptions {
  std::uint32_t runs = 3;
  bool progress = false;              // says on stderr what is being measured
  const StartTimes* start = nullptr;  // of RunMeta: when each measurement begins; null: at once
};

// Every shape on every side, `options.runs` times.
absl::StatusOr<Report> RunIo(const std::vector<Side>& sides, const IoOptions& io,
                             const RunOptions& options);
absl::StatusOr<Report> RunMeta(const std::vector<Side>& sides, std::uint32_t threads,
                               const MetaOptions& meta, const RunOptions& options);

}  // namespace reel::bench
