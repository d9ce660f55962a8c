#include "tools/lib/clear_registrations.h"

#include "absl/strings/str_cat.h"
#include "volume/base/env.h"
#include "volume/lun/reservation.h"

namespace reel::tools {

// The path has a key of its own already where the kernel keeps it: of a process that is dead.
absl::Status ClearRegistrations(Lun& lun, std::span<const std::uint64_t> keys) {
  Reservations& reservations = *lun.reservations();
  const std::uint64_t key = RandomU64() | 1;
  ReservationResult result = reservations.Register(key);
  if (result.done()) {
    result = reservations.Clear(key);
    if (!result.done()) (void)reservations.Unregister(key);
  } else {
    for (const std::uint64_t own : keys) {
      if (result.done() || result.outcome != ReservationResult::Outcome::kConflict) break;
      result = reservations.Clear(own);
    }
  }
  if (result.done()) return absl::OkStatus();
  return absl::Status(
      result.status.code(),
      absl::StrCat(lun.name(), ": its registrations stay: ", result.status.message()));
}

}  // namespace reel::tools
