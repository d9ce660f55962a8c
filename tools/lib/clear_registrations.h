// Takes all registrations and the reservation of a LUN away, whoever has them.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "volume/lun/lun.h"

namespace reel::tools {

// `keys`: that are registered there. Not OK: they stay, and why. REQUIRES: the LUN has
// reservations, and nobody uses it. Threads: waits for the LUN.
absl::Status ClearRegistrations(Lun& lun, std::span<const std::uint64_t> keys);

}  // namespace reel::tools
