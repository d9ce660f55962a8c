// Time and the CPU of the whole machine, from its making on: a file system in user space works in
// other processes than the one that measures. Source: proc(5), /proc/stat. Thread rule: a plain
// value.
#pragma once

#include <chrono>

#include "tools/bench/load.h"

namespace reel::bench {

class Stopwatch {
 public:
  Stopwatch();
  // Fills in what has passed.
  Measure Read(double operations, double bytes) const;

 private:
  std::chrono::steady_clock::time_point begin_;
  double busy_seconds_;
};

}  // namespace reel::bench
