#include "tools/mkfs/forced_luns.h"

#include <limits>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "mdc/seat/seat_check.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"

namespace reel::tools {
namespace {

// An epoch that no block is of: even a holder that has died on this machine is waited for.
constexpr Epoch kWaitForAll(std::numeric_limits<std::uint64_t>::max());

absl::Status CheckSeat(Lun& seat_lun, const Uuid& volume, const std::string& name) {
  mdc::SeatOptions seat;
  seat.volume = volume;
  const absl::Status unserved = mdc::CheckUnserved(seat_lun, seat, kWaitForAll, SystemClock());
  if (!absl::IsFailedPrecondition(unserved)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "volume ", name, ", of which there is a LUN: ", unserved.message(), "; stop it first"));
}

// The volumes that the LUNs are of, as their descriptors say.
std::map<Uuid, VolumeDescriptor> VolumesOf(const std::vector<std::vector<PickedLun>>& picked) {
  std::map<Uuid, VolumeDescriptor> volumes;
  for (const auto& luns : picked) {
    for (const PickedLun& one : luns) {
      const auto label = ReadLabel(*one.lun);
      if (!label.ok() || label->label.volume.is_nil()) continue;
      auto reading = ReadDescriptor(*one.lun);
      if (reading.ok() && reading->descriptor.volume == label->label.volume) {
        volumes.emplace(label->label.volume, std::move(reading->descriptor));
      }
    }
  }
  return volumes;
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

}  // namespace

absl::Status CheckForcedLuns(const std::vector<std::vector<PickedLun>>& picked,
                             const std::vector<std::string>& patterns) {
  for (const auto& [volume, descriptor] : VolumesOf(picked)) {
    std::unique_ptr<Lun> opened;
    Lun* seat = FindPicked(picked, descriptor.seat_lun);
    for (const FoundLun& found : seat == nullptr ? ScanLuns(patterns) : std::vector<FoundLun>()) {
      if (!found.status.ok() || found.reading.label.lun != descriptor.seat_lun) continue;
      auto lun = OpenLun(found.name, LunAccess::kReadOnly);
      if (!lun.ok()) continue;
      opened = *std::move(lun);
      seat = opened.get();
    }
    if (seat == nullptr) continue;
    if (absl::Status s = CheckSeat(*seat, volume, descriptor.name); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace reel::tools
