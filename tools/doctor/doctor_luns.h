// The LUNs that a host's configuration leads to: whether they are there, can be read and written,
// can cut a host off, and by how many paths they are reached. Nothing is written to them.
//
// Threads: they wait for LUNs.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/host_trees.h"

namespace reel::tools {

// One of each LUN that has a label, of each pattern that leads to nothing, and of each volume,
// which may lack LUNs. `volumes`: those that this host serves; others are found by their labels.
std::vector<Finding> LunFindings(const std::vector<std::string>& patterns,
                                 std::vector<std::string> volumes, const HostTrees& trees);

}  // namespace reel::tools
