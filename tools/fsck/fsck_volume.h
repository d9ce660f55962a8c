// A volume on the bare LUNs, checked and, where asked for, repaired: from the labels inward, each
// layer before the one that lies on it. Threads: one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/fsck/fsck_output.h"

namespace reel::tools {

// Of fsck(8): the check could not be made.
inline constexpr int kOperationalError = 8;

struct FsckOptions {
  std::string volume;
  std::vector<std::string> patterns;
  std::string program;      // this one and its release, for people
  std::size_t threads = 1;  // of the check
  bool repair = false;
  bool rebuild = false;  // also a repair that loses what cannot be read any more
};

// Prints as it goes, and the summary. An error: the volume could not be checked at all. DATA_LOSS:
// no descriptor of it can be read.
absl::StatusOr<FsckResult> CheckAndRepair(const FsckOptions& options, FsckOutput& output);

}  // namespace reel::tools
