// A LUN that is to become a volume's: who it is by its label, whether it holds something that must
// not be overwritten, and how it is made ready. What mkfs.reelfs and a growing volume have in
// common. Threads: one thread a LUN.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/uuid.h"
#include "volume/lun/lun.h"

namespace reel {

struct NewLun {
  Uuid uuid;
  std::string name;
  Uuid volume;  // that its label names; nil: none
  std::uint64_t label_generation = 0;
  // No label that it may keep: the reserved area is cleared, and the LUN labelled as this says.
  bool start_over = false;
};

// The refusal of a LUN that holds something; `hint` says what overwrites it all the same.
absl::Status RefuseNewLun(const std::string& path, std::string_view holds, std::string_view hint);

// Nothing is written. With `forced` it may hold what it will. FAILED_PRECONDITION: it holds a
// partition table, a file system, or a label that cannot be read. One that a volume has is the
// caller's to refuse. `path`: what OpenLun took; `hint` as above.
absl::StatusOr<NewLun> LookAtNewLun(Lun& lun, const std::string& path, bool forced,
                                    std::string_view hint);

// Clears the reserved area of a LUN but its label, which is one of no volume afterwards where the
// LUN was to start over.
absl::Status PrepareNewLun(Lun& lun, const NewLun& as);

// The name that a LUN without a label gets from its path.
std::string LunNameFromPath(const std::string& path);

}  // namespace reel
