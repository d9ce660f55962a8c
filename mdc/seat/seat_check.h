// What a tool has to know about the seat before it works on a volume: that no controller serves it,
// on this machine or another.
//
// The caller has this machine's claim of the seat LUN (Lun::ClaimForThisProcess). Threads: pure;
// waits for the LUN, and as long as a controller's term where one may still be alive.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/seat/seat.h"
#include "volume/lun/lun.h"

namespace reel::mdc {

// Whether the holder that a look shows is one of this machine that has ended: it had the claim that
// the looker has now. `written` is the epoch of the metadata store: a block from before that is
// what a dying controller had sent, and says nothing of the one after it.
bool HolderDiedHere(const SeatLook& look, const SeatOptions& options, Epoch written);

// The last look at a seat that nobody has. FAILED_PRECONDITION: a controller serves the volume, or
// a tool works on it, and where. Else the LUN's own error.
absl::StatusOr<SeatLook> CheckUnserved(const std::function<absl::StatusOr<SeatLook>()>& look,
                                       const SeatOptions& options, Epoch written);
// The same by looks at the block alone, of a LUN that is only read.
absl::Status CheckUnserved(Lun& seat_lun, const SeatOptions& options, Epoch written,
                           const Clock& clock);

}  // namespace reel::mdc
