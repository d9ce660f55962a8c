// By how many paths this host reaches a LUN, as sysfs tells.
//
// Threads: pure functions that read sysfs.
#pragma once

#include <string>

#include "tools/doctor/host_trees.h"

namespace reel::tools {

struct LunPaths {
  std::string text;  // "2 paths by multipath"
  std::string todo;  // empty where it is well
};

// `device`: the kernel's name of a block device, such as "sdb" or "dm-3".
LunPaths PathsOf(const HostTrees& trees, const std::string& device);

}  // namespace reel::tools
