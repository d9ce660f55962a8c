#include "mdc/qos/level_fill.h"

#include <algorithm>

namespace reel::mdc {
namespace {

// Halves the interval that the level is in so often: more than a double can tell apart.
constexpr int kHalvings = 60;

double Gets(const Demand& demand, double level) {
  return std::min(demand.want, std::max(demand.floor, demand.weight * level));
}

}  // namespace

Filling LevelFill(double amount, std::span<const Demand> demands) {
  Filling filling;
  if (demands.empty()) {
    filling.left = std::max(amount, 0.0);
    return filling;
  }
  const auto sum_at = [&](double level) {
    double sum = 0;
    for (const Demand& demand : demands) sum += Gets(demand, level);
    return sum;
  };
  // At this level the lightest alone would get all.
  double least_weight = demands.front().weight;
  for (const Demand& demand : demands) least_weight = std::min(least_weight, demand.weight);
  double low = 0;
  double high = std::max(amount, 0.0) / least_weight;
  if (sum_at(high) <= amount) {
    low = high;
  } else {
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (sum_at(middle) <= amount ? low : high) = middle;
    }
  }
  filling.gets.reserve(demands.size());
  double sum = 0;
  for (const Demand& demand : demands) {
    filling.gets.push_back(Gets(demand, low));
    sum += filling.gets.back();
  }
  filling.left = std::max(0.0, amount - sum);
  return filling;
}

}  // namespace reel::mdc
