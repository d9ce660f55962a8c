// Which volumes are mounted on a host, and which ought to be.
//
// Threads: pure functions that read files; no mount is touched, for one may hang.
#pragma once

#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/host_trees.h"

namespace reel::tools {

// Of each mount, and of each line of fstab(5) that is none. Where there is neither: a warning.
std::vector<Finding> MountFindings(const HostTrees& trees);

}  // namespace reel::tools
