// Whether LUNs that mkfs may overwrite belong to a volume that is served, by whatever host.
// Threads: one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/mkfs/lun_picker.h"

namespace reel::tools {

// Looks at the seats of the volumes that the picked LUNs are of; a seat LUN that was not picked is
// looked for at `patterns`. Waits for as long as a controller's term where one may be alive.
// FAILED_PRECONDITION: one is, and where; or the seat cannot be found, and hosts are registered on
// a LUN of it. Without those it says nothing then. Else why the seat's LUN cannot be read.
absl::Status CheckForcedLuns(const std::vector<std::vector<PickedLun>>& picked,
                             const std::vector<std::string>& patterns);

}  // namespace reel::tools
