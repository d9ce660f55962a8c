// Which volumes are mounted on a host, and which ought to be.
//
// Threads: pure functions that read files; mounts are touched by `probe` alone, for one may hang.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/host_trees.h"

namespace reel::tools {

// What a directory says: ProbeDirectory, with its time.
using DirectoryProbe = std::function<std::optional<int>(const std::string& directory)>;

// Of each mount, and of each line of fstab(5) that is none. Where there is neither: a warning.
std::vector<Finding> MountFindings(const HostTrees& trees, const DirectoryProbe& probe);

}  // namespace reel::tools
