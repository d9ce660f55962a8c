#include "tools/mkfs/lun_claim.h"

#include <algorithm>
#include <cstdint>

#include "volume/base/env.h"
#include "volume/format/label.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun.h"
#include "volume/lun/reservation.h"

namespace reel::tools {
namespace {

// The path has a key of its own already where the kernel keeps it: of a process that is dead.
absl::Status ClearAll(Reservations& reservations, const Registrations& registrations) {
  const std::uint64_t key = RandomU64() | 1;
  ReservationResult result = reservations.Register(key);
  if (result.done()) return reservations.Clear(key).status;
  for (const std::uint64_t own : registrations.keys) {
    if (result.outcome != ReservationResult::Outcome::kConflict) return result.status;
    result = reservations.Clear(own);
    if (result.done()) return result.status;
  }
  return result.status;
}

// Nothing of mkfs's is written yet: what lands from here to the new reservation lands in the volume
// that is given up. `*cleared`: somebody was registered. What is of something else stays.
absl::Status DropFormer(Lun& lun, bool* cleared) {
  Reservations* const reservations = lun.reservations();
  const auto label = ReadLabel(lun);
  if (reservations == nullptr || !label.ok() || label->label.volume.is_nil()) {
    return absl::OkStatus();
  }
  const auto registrations = reservations->ReadKeys();
  if (absl::IsUnimplemented(registrations.status())) return absl::OkStatus();
  if (!registrations.ok()) return registrations.status();
  const bool all_its = std::ranges::all_of(registrations->keys, [&](std::uint64_t key) {
    return PartsOfKey(label->label.volume, key).has_value();
  });
  if (registrations->keys.empty() || !all_its) return absl::OkStatus();
  *cleared = true;
  return ClearAll(*reservations, *registrations);
}

}  // namespace

LunClaim::~LunClaim() {
  if (!kept_) fencer_.Leave();
}

absl::Status LunClaim::Take() {
  bool cleared = false;
  for (const auto& lun : volume_.luns) {
    if (absl::Status s = DropFormer(*lun, &cleared); !s.ok()) return s;
  }
  std::uint64_t quarantine_ms = 0;
  if (absl::Status s = fencer_.Take(Epoch(0), &quarantine_ms); !s.ok()) return s;
  if (cleared) {
    const mdc::FenceOutcome drained = fencer_.Fence({.id = mdc::FenceId(1), .drain = true});
    if (!drained.done) return absl::UnavailableError(drained.problem);
    quarantine_ms = std::max(quarantine_ms, drained.quarantine_ms);
  }
  mdc::WaitOut(volume_.descriptor.name, quarantine_ms);
  return absl::OkStatus();
}

}  // namespace reel::tools
