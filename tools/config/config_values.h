// What each program of a host goes by in the end, and where that is from.
//
// Threads: pure, but for reading the files once more.
#pragma once

#include <string>
#include <vector>

#include "tools/config/host_config.h"

namespace reel::tools {

struct ConfigValue {
  std::string program;  // "reel-mdcd", "mount.reelfs", "reeladm"
  std::string key;
  std::vector<std::string> values;
  bool list = false;
  std::string from;  // FILE:LINE, "$VARIABLE", or "default"
};

std::vector<ConfigValue> ValuesOf(const HostConfig& config);

}  // namespace reel::tools
