#include "tools/mkfs/lun_claim.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/lib/clear_registrations.h"
#include "volume/format/label.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun.h"
#include "volume/lun/reservation.h"

namespace reel::tools {
namespace {

struct Registered {
  Lun* lun = nullptr;
  std::vector<std::uint64_t> keys;
};

// Of the volumes that the labels name. FAILED_PRECONDITION: something else is registered.
absl::StatusOr<std::vector<Registered>> FindFormer(const std::vector<Lun*>& luns) {
  std::vector<Registered> found;
  for (Lun* lun : luns) {
    if (!lun->has_reservations()) continue;
    auto registrations = lun->reservations()->ReadKeys();
    if (absl::IsUnimplemented(registrations.status())) continue;
    if (!registrations.ok()) return registrations.status();
    if (registrations->keys.empty()) continue;
    const auto label = ReadLabel(*lun);
    const bool says_none = absl::IsNotFound(label.status()) || absl::IsDataLoss(label.status()) ||
                           absl::IsUnimplemented(label.status());
    if (!label.ok() && !says_none) return label.status();
    const Uuid volume = label.ok() ? label->label.volume : Uuid();
    for (const std::uint64_t key : registrations->keys) {
      if (!volume.is_nil() && PartsOfKey(volume, key)) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          lun->name(), ": key ", KeyText(key),
          " of something else than the volume in its label is ",
          "registered there; if nothing else uses the LUN, clear it with reel-label unreserve"));
    }
    found.push_back({lun, std::move(registrations->keys)});
  }
  return found;
}

}  // namespace

// (Nothing of mkfs's is written yet: what lands from here to the new reservation lands in what is
// given up.)
absl::StatusOr<bool> EndFormerRegistrations(const std::vector<Lun*>& luns) {
  const auto former = FindFormer(luns);
  if (!former.ok()) return former.status();
  for (const Registered& registered : *former) {
    if (absl::Status s = ClearRegistrations(*registered.lun, registered.keys); !s.ok()) return s;
  }
  return !former->empty();
}

LunClaim::~LunClaim() {
  if (!kept_) fencer_.Leave();
}

absl::Status LunClaim::Take() {
  std::vector<Lun*> luns;
  for (const auto& lun : volume_.luns) luns.push_back(lun.get());
  const auto cleared = EndFormerRegistrations(luns);
  if (!cleared.ok()) return cleared.status();
  std::uint64_t quarantine_ms = 0;
  if (absl::Status s = fencer_.Take(Epoch(0), &quarantine_ms); !s.ok()) return s;
  if (*cleared) {
    if (absl::Status s = fencer_.AwaitSent(&quarantine_ms); !s.ok()) return s;
  }
  mdc::WaitOut(volume_.descriptor.name, quarantine_ms);
  return absl::OkStatus();
}

}  // namespace reel::tools
