// What a sweep measures: points of block size, stripe breadth, I/O size, depth and direction.
//
// A client maps a file's extents onto LUNs and sends one batch of requests (docs/internals). Where
// a file lies in one piece, its requests are cut by the stripe breadth alone, and the block size
// changes none of them. Where each of its blocks lies elsewhere, each request ends with its block,
// which lies on one LUN whatever the breadth. Between these two lies every file. So the four
// dimensions are measured as two grids: *fresh* (in one piece) by breadth, *scattered* by block
// size, each by I/O size, depth and direction; their product would only measure the same requests
// again. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace reel::bench {

struct SweepPoint {
  bool scattered = false;
  std::uint64_t geometry_bytes = 0;  // the stripe breadth; the block size where scattered
  std::uint64_t io_bytes = 0;
  std::uint32_t depth = 1;  // I/Os in flight
  bool write = false;

  friend bool operator==(const SweepPoint&, const SweepPoint&) = default;
};
// "fresh, stripe breadth 256 KiB: reads of 1 MiB, 4 at a time".
std::string TextOf(const SweepPoint& point);
// The same without the geometry: what is compared.
std::string WorkOf(const SweepPoint& point);

struct SweepOptions {
  std::vector<std::uint64_t> block_sizes{}, breadths{}, io_sizes{};
  std::vector<std::uint32_t> depths{};
  std::uint32_t runs = 2;
  double seconds = 1;                     // of each point, in each run
  std::uint64_t area_bytes = 1ull << 30;  // on each LUN
  bool progress = false;
};
// INVALID_ARGUMENT: a size that no volume has, or that is given twice.
absl::Status CheckSweep(const SweepOptions& options);
// Reads before writes, in the order in which they are measured in each run.
std::vector<SweepPoint> PointsOf(const SweepOptions& options);

struct SweepResult {
  SweepPoint point;
  std::vector<double> rates;  // bytes a second, by run
};

}  // namespace reel::bench
