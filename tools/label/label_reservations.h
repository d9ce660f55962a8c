// What reel-label knows of a LUN's SCSI-3 reservations: lists them, and clears what nobody else
// can. Threads: one.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace reel::tools {

// Prints who is registered on the LUN, by its own word. UNIMPLEMENTED: it has no reservations.
absl::Status ListReservations(const std::string& path);

// Takes the reservation and all registrations away. FAILED_PRECONDITION, unless `force`: there are
// some; the message says whose.
absl::Status ClearReservations(const std::string& path, bool force);

}  // namespace reel::tools
