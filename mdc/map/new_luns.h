// LUNs that are to be added to a volume that is served: found among those that this controller
// looks at, and refused where they hold something. Nothing is written.
// Threads: one at a time; it waits for the LUNs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/format/lun_scan.h"
#include "volume/join/new_lun.h"
#include "volume/join/new_set.h"

namespace reel::mdc {

struct ChosenLun {
  NewLun as;
  LunFacts facts;
  std::string name;  // what OpenLun takes
};

struct LunChoice {
  const std::vector<std::string>& luns;      // by path, or by the name on their label
  const std::vector<std::string>& force;     // those, by path, that may hold something
  const std::vector<std::string>& patterns;  // where this controller looks for LUNs
};

// NOT_FOUND: none of the LUNs at the patterns is named so. FAILED_PRECONDITION: it holds something,
// is in use, or is of another volume. INVALID_ARGUMENT: it is named twice, is one of this volume's,
// or has other logical blocks than clients can learn while they have the volume mounted.
absl::StatusOr<std::vector<ChosenLun>> ChooseNewLuns(const OpenVolume& volume,
                                                     const LunChoice& choice);

// Whether that LUN can take the place of the volume's LUN `old`. NOT_FOUND: there is no such LUN.
// INVALID_ARGUMENT: it is too small, or has the name of another one.
absl::Status CheckReplacement(const VolumeDescriptor& descriptor, const std::string& old,
                              const LunFacts& facts);

}  // namespace reel::mdc
