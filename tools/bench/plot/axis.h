// An axis: from values to places on the picture, and where it has marks. Pure; a plain value.
#pragma once

#include <string>
#include <vector>

namespace reel::bench {

class Axis {
 public:
  // From `least` to `most`, widened to whole marks; drawn between the places `from` and `to`.
  // Values that are not finite count as 0.
  Axis(double least, double most, double from, double to);

  // Values outside of the axis lie at its end.
  double Place(double value) const;
  struct Mark {
    double place;
    std::string text;
  };
  std::vector<Mark> Marks() const;
  double most() const { return most_; }

 private:
  double least_ = 0, most_ = 1, step_ = 1, from_, to_;
};

}  // namespace reel::bench
