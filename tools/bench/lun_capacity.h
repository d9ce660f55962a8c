// What the LUNs behind a directory of a mount carry, for `reeladm qos capacity`: the slower of
// reading and writing, large and small, past all caches.
//
// One host may not be able to ask for all that the LUNs could do: then it is what this host gets.
// Thread rule: called by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/bench/load.h"
#include "tools/bench/side.h"

namespace reel::bench {

struct LunCapacity {
  double read_bytes = 0, written_bytes = 0;  // in a second, by requests of 1 MiB
  double reads = 0, writes = 0;              // in a second, of 4 KiB
  std::uint64_t rate_bytes() const;
  std::uint64_t rate_requests() const;
};

// Lays a file out there, and removes it.
absl::StatusOr<LunCapacity> MeasureLuns(const Side& side, const IoOptions& options, bool progress);

// The figures, and the command that stores them. Numbers are rounded down.
std::string CapacityText(const LunCapacity& capacity);
nlohmann::ordered_json CapacityJson(const LunCapacity& capacity);

}  // namespace reel::bench
