// Cuts all hosts off the LUNs of which mkfs makes a volume, where those LUNs have reservations.
//
// mkfs holds them under a controller's key of the new volume, in epoch 0. The first controller
// takes them over as from a controller that died, so they are reserved from mkfs's first write on.
// Else a write that some host still has, of what was there before, might land in the new volume
// (docs/failover.md). Threads: one.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/fence/fencer.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {

// Takes away what the volumes that the LUNs' labels name have registered there. Whether there was
// any. FAILED_PRECONDITION: something else is registered on one of them, and all are as they were.
// REQUIRES: nobody serves those volumes.
absl::StatusOr<bool> EndFormerRegistrations(const std::vector<Lun*>& luns);

class LunClaim {
 public:
  // `volume` is the new one, and outlives it. The LUNs' labels still say what was there before.
  explicit LunClaim(OpenVolume& volume) : volume_(volume), fencer_(volume) {}
  // Gives the LUNs up, unless they were kept.
  ~LunClaim();
  LunClaim(const LunClaim&) = delete;
  LunClaim& operator=(const LunClaim&) = delete;

  // EndFormerRegistrations, takes the LUNs, and waits for what was sent before. Errors as of that,
  // and as of Fencer::Take.
  absl::Status Take();
  // The volume is made.
  void Keep() { kept_ = true; }

 private:
  OpenVolume& volume_;
  mdc::Fencer fencer_;
  bool kept_ = false;
};

}  // namespace reel::tools
