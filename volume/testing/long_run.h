// How much tests do: what finds faults within minutes, or all of it (tests/run --long).
#pragma once

#include <cstdlib>

namespace reel {

inline bool IsLongRun() {
  return std::getenv("REEL_LONG") != nullptr;
}

}  // namespace reel
