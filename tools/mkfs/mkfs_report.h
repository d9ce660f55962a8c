// How mkfs.reelfs shows what it makes: for people, and as JSON with stable keys. Pure functions.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "tools/lib/geometry.h"

namespace reel::tools {

std::string GeometryText(const Geometry& geometry);
nlohmann::ordered_json GeometryJson(const Geometry& geometry);

// "round", "fill", "balance"; "metadata,data".
std::string StrategyText(AllocationStrategy strategy);
std::vector<std::string> FlagTexts(std::uint32_t pool_flags);

}  // namespace reel::tools
