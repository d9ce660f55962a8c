#include "tools/mkfs/forced_luns.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/seat/seat_check.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"
#include "volume/lun/reservation.h"

namespace reel::tools {
namespace {

// An epoch that no block is of: even a holder that has died on this machine is waited for.
constexpr Epoch kWaitForAll(std::numeric_limits<std::uint64_t>::max());

// Not OK: it is served, or nobody can say.
absl::Status CheckSeat(Lun& seat_lun, const Uuid& volume, const std::string& name) {
  mdc::SeatOptions seat;
  seat.volume = volume;
  const absl::Status unserved = mdc::CheckUnserved(seat_lun, seat, kWaitForAll, SystemClock());
  if (!absl::IsFailedPrecondition(unserved)) return unserved;
  return absl::FailedPreconditionError(absl::StrCat(
      "volume ", name, ", of which there is a LUN: ", unserved.message(), "; stop it first"));
}

struct Former {
  std::optional<VolumeDescriptor> descriptor;
  std::string registered;  // a LUN of it on which hosts are registered; empty: none
};

bool AnyRegistered(const Lun& lun) {
  if (!lun.has_reservations()) return false;
  const auto registrations = lun.reservations()->ReadKeys();
  return registrations.ok() && !registrations->keys.empty();
}

// The volumes that the LUNs are of, as their labels and descriptors say.
std::map<Uuid, Former> FormersOf(const std::vector<std::vector<PickedLun>>& picked) {
  std::map<Uuid, Former> formers;
  for (const auto& luns : picked) {
    for (const PickedLun& one : luns) {
      const auto label = ReadLabel(*one.lun);
      if (!label.ok() || label->label.volume.is_nil()) continue;
      Former& former = formers[label->label.volume];
      if (AnyRegistered(*one.lun)) former.registered = one.lun->name();
      auto reading = ReadDescriptor(*one.lun);
      const bool older = reading.ok() && former.descriptor &&
                         reading->descriptor.generation <= former.descriptor->generation;
      if (reading.ok() && !older && reading->descriptor.volume == label->label.volume) {
        former.descriptor = std::move(reading->descriptor);
      }
    }
  }
  return formers;
}

Lun* FindPicked(const std::vector<std::vector<PickedLun>>& picked, const Uuid& lun) {
  for (const auto& luns : picked) {
    for (const PickedLun& one : luns) {
      const auto label = ReadLabel(*one.lun);
      if (label.ok() && label->label.lun == lun) return one.lun.get();
    }
  }
  return nullptr;
}

// NOT_FOUND: its seat is on no LUN that is picked or named.
absl::Status CheckFormer(const Uuid& volume, const Former& former,
                         const std::vector<std::vector<PickedLun>>& picked,
                         const std::vector<std::string>& patterns) {
  if (!former.descriptor) return absl::NotFoundError("its descriptor is damaged");
  std::unique_ptr<Lun> opened;
  Lun* seat = FindPicked(picked, former.descriptor->seat_lun);
  for (const FoundLun& found : seat == nullptr ? ScanLuns(patterns) : std::vector<FoundLun>()) {
    if (!found.status.ok() || found.reading.label.lun != former.descriptor->seat_lun) continue;
    auto lun = OpenLun(found.name, LunAccess::kReadOnly);
    if (!lun.ok()) return lun.status();
    opened = *std::move(lun);
    seat = opened.get();
  }
  if (seat == nullptr) return absl::NotFoundError("the LUN of its seat is not among the luns");
  // A LUN keeps its UUID: this one may be another volume's seat by now.
  if (const auto label = ReadLabel(*seat); label.ok() && label->label.volume != volume) {
    return absl::OkStatus();
  }
  return CheckSeat(*seat, volume, former.descriptor->name);
}

}  // namespace

absl::Status CheckForcedLuns(const std::vector<std::vector<PickedLun>>& picked,
                             const std::vector<std::string>& patterns) {
  for (const auto& [volume, former] : FormersOf(picked)) {
    const absl::Status unserved = CheckFormer(volume, former, picked, patterns);
    if (!unserved.ok() && !absl::IsNotFound(unserved)) return unserved;
    if (unserved.ok() || former.registered.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        former.registered, ": hosts of volume ", volume.ToString(),
        " are registered there, and nobody can say whether it is served (", unserved.message(),
        "): name that LUN by --luns, or clear this one with reel-label unreserve"));
  }
  return absl::OkStatus();
}

}  // namespace reel::tools
