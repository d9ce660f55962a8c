// Makes the reserved areas of a volume's LUNs whole again: labels and descriptor copies that are
// damaged, missing or behind are rewritten from the good ones.
//
// What rules: the descriptor with the highest generation that any LUN of the volume holds (a change
// reaches the seat first, so no copy is ahead of what the seat once had); where two of one
// generation differ, the seat's. A LUN without a whole label is known by elimination: when it holds
// the volume's descriptor and exactly one LUN of the volume is missing. Threads: one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/format/lun_scan.h"

namespace reel {

struct LunMend {
  std::string where;  // "LUN data1 (/dev/…)"
  std::string what;   // was done to it
};

// The volume by the best descriptor that is left, its LUNs open for writing; nothing is changed.
// NOT_FOUND: no descriptor of it is left, or its LUNs are not all there and told apart; opening the
// volume by OpenVolumeByName then says why.
absl::StatusOr<OpenVolume> OpenToMend(const std::string& volume_name,
                                      const std::vector<std::string>& patterns);
// What was done; all of it is durable. REQUIRES: `volume` is of OpenToMend, and nobody else's
// meanwhile.
absl::StatusOr<std::vector<LunMend>> MendLuns(OpenVolume& volume);

}  // namespace reel
