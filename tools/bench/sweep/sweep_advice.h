// Which stripe breadth and block size a sweep speaks for, and why. Pure.
//
// A size's *share* is the geometric mean, over all I/O sizes and depths of the purpose, of its rate
// by the best rate that any size has there: a mean that no one large figure decides. Sizes whose
// shares are within the noise (3 %, or what the runs differ by, if that is more) of the best one
// are equal; of equals the default is taken, else the one nearest to it: what everybody runs is
// known best, and small differences do not last.
// Block sizes matter to scattered files alone, whose weight is a choice: a volume of large files
// that are deleted whole has few of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/sweep/sweep_grid.h"

namespace reel::bench {

enum class Purpose { kReading, kWriting, kBoth };
const char* NameOf(Purpose purpose);

struct SizeShare {
  std::uint64_t bytes = 0;
  double share = 0;
};
struct SizeChoice {
  std::uint64_t bytes = 0;
  std::vector<SizeShare> shares;  // of all sizes that could be taken, in their order
  std::string why;
};
struct Advice {
  Purpose purpose = Purpose::kBoth;
  double noise = 0;  // within which sizes are equal: 0.03 or more
  SizeChoice breadth{}, block{};
};

// `scattered_weight`: 0 to 1. REQUIRES: each point has a rate, of the same number of runs.
Advice AdviseOn(const std::vector<SweepResult>& results, Purpose purpose, double scattered_weight);

// What the runs of a point typically differ by, as a share of its rate: the median over all points.
double NoiseOf(const std::vector<SweepResult>& results);

struct AdvisedVolume {
  std::string name = "reel";
  std::vector<std::string> luns{};      // paths or URLs
  std::vector<std::string> metadata{};  // LUNs of a pool of its own; empty: the one pool has all
};
// A description for mkfs.reelfs that says the advice, with the reasons as comments.
std::string AdviceToml(const Advice& advice, const AdvisedVolume& volume);

}  // namespace reel::bench
