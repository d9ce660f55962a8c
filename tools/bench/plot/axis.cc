#include "tools/bench/plot/axis.h"

#include <algorithm>
#include <cmath>

#include "tools/bench/plot/markup.h"

namespace reel::bench {
namespace {

constexpr double kMarks = 6;

// 1, 2 or 5 times a power of ten: about kMarks of them in `range`.
double StepOf(double range) {
  const double rough = range / kMarks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1, 2, 5}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

double Finite(double value) {
  return std::isfinite(value) ? value : 0;
}

}  // namespace

Axis::Axis(double least, double most, double from, double to) : from_(from), to_(to) {
  least = Finite(least);
  most = std::max(Finite(most), least);
  if (most - least < 1e-12 * std::max(1.0, std::abs(most))) most = least + 1;
  step_ = StepOf(most - least);
  least_ = std::floor(least / step_) * step_;
  most_ = std::ceil(most / step_) * step_;
}

double Axis::Place(double value) const {
  const double share = (std::clamp(Finite(value), least_, most_) - least_) / (most_ - least_);
  return from_ + share * (to_ - from_);
}

std::vector<Axis::Mark> Axis::Marks() const {
  std::vector<Mark> marks;
  const auto count = static_cast<int>(std::lround((most_ - least_) / step_));
  for (int i = 0; i <= count; ++i) {
    const double value = least_ + i * step_;
    marks.push_back({Place(value), Coordinate(value)});
  }
  return marks;
}

}  // namespace reel::bench
