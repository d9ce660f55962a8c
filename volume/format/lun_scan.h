// Finds a volume's LUNs among candidate paths, and opens them in the order of the stripe map.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/lun/lun.h"

namespace reel {

struct FoundLun {
  std::string path;     // as messages and lists show it
  std::string name;     // what OpenLun takes: an iscsi:// URL may hold a secret
  absl::Status status;  // of opening and reading the label; the rest is valid when OK
  LabelReading reading;
};

// Expands shell globs, in order and without repeats. A pattern without glob characters stands for
// itself even where nothing is there.
std::vector<std::string> ExpandLunPatterns(const std::vector<std::string>& patterns);

// Opens each candidate read-only and reads its label. Never fails as a whole.
std::vector<FoundLun> ScanLuns(const std::vector<std::string>& patterns);

// A volume's open LUNs, by the stripe map's flat LUN index. A LUN that grew stands at several
// places, and is one object. When the volume's map changes, another OpenVolume takes this one's
// place, and shares its LUNs (OpenMoreLuns).
struct OpenVolume {
  VolumeDescriptor descriptor;
  std::vector<std::shared_ptr<Lun>> luns;
  std::vector<std::string> warnings;  // copies that were damaged or behind, for logs and fsck
  // By the same index, as FoundLun has them. Empty where the LUNs were not found by a scan: they
  // are then what their own names say.
  std::vector<std::string> names{};

  Lun& seat_lun() const;
  // What OpenLun takes to open a LUN of it once more.
  const std::string& NameOf(std::size_t index) const;
  const std::string& seat_name() const { return NameOf(SeatIndex()); }

 private:
  std::size_t SeatIndex() const;
};

// Scans, picks the LUNs whose label names `volume_name`'s volume, reads the seat LUN's descriptor,
// and opens every LUN of it with `access`. Errors name what is missing: NOT_FOUND (no such volume,
// or a LUN of it), FAILED_PRECONDITION (two LUNs claim one UUID; a LUN is smaller than its
// geometry), DATA_LOSS (no valid descriptor).
absl::StatusOr<OpenVolume> OpenVolumeByName(const std::string& volume_name,
                                            const std::vector<std::string>& patterns,
                                            LunAccess access);

// Opens the LUNs of a descriptor that is already known (the client has it from the MDC).
absl::StatusOr<OpenVolume> OpenVolumeLuns(const VolumeDescriptor& descriptor,
                                          const std::vector<std::string>& patterns,
                                          LunAccess access);

// A LUN that is open, and what OpenLun takes to open it once more.
struct NamedLun {
  std::shared_ptr<Lun> lun;
  std::string name;
};
using OpenLuns = std::map<Uuid, NamedLun>;

// The same volume by a later descriptor: LUNs that are open are shared, and grown where it uses
// more of them; those that came since are looked for, and opened. Errors as OpenVolumeByName's.
absl::StatusOr<OpenVolume> OpenMoreLuns(const OpenVolume& open, const VolumeDescriptor& later,
                                        const std::vector<std::string>& patterns, LunAccess access);
// The same, where those that came since are `added`.
absl::StatusOr<OpenVolume> OpenMoreLuns(const OpenVolume& open, const VolumeDescriptor& later,
                                        OpenLuns added);

}  // namespace reel
