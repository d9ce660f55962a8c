// What `reeladm config check` and `reeladm config show` print. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/config/config_values.h"
#include "tools/config/host_config.h"

namespace reel::tools {

std::string CheckText(const HostConfig& config);
nlohmann::ordered_json CheckJson(const HostConfig& config);

std::string ValuesText(const std::vector<ConfigValue>& values);
nlohmann::ordered_json ValuesJson(const std::vector<ConfigValue>& values);

}  // namespace reel::tools
