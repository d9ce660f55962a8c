// An amount is shared out fairly: max-min, with floors.
//
// Who wants less than the level gets what it wants; all others get the level, times their weight,
// or their floor where that is more. The level is as high as the amount allows. So a floor costs
// the others something only where the level is below it. Threads: pure functions.
#pragma once

#include <limits>
#include <span>
#include <vector>

namespace reel::mdc {

struct Demand {
  double want = std::numeric_limits<double>::infinity();
  double floor = 0;
  double weight = 1;  // > 0
};

struct Filling {
  std::vector<double> gets;  // one each, by demand
  double left = 0;           // of the amount, when all have what they want
};

// Floors are kept whatever the amount: then more than that is given.
Filling LevelFill(double amount, std::span<const Demand> demands);

}  // namespace reel::mdc
