#include "tools/bench/sweep/sweep_grid.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/size.h"
#include "volume/base/types.h"

namespace reel::bench {
namespace {

constexpr std::uint64_t kMaxIoBytes = 64 * kMiB;
constexpr std::uint32_t kMaxDepth = 256;

template <typename Value>
bool HasTwice(std::vector<Value> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) != values.end();
}

absl::Status CheckBlock(std::uint64_t bytes) {
  if (bytes >= kMinBlockBytes && bytes <= kMaxBlockBytes && std::has_single_bit(bytes)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("block size ", FormatSize(bytes),
                                                 ": must be a power of two from 4 KiB to 1 MiB"));
}

absl::Status CheckMultiple(const char* what, std::uint64_t bytes, std::uint64_t most) {
  if (bytes > 0 && bytes % kIoAlignment == 0 && bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " ", FormatSize(bytes), ": must be a multiple of 4 KiB, at most ", FormatSize(most)));
}

}  // namespace

std::string WorkOf(const SweepPoint& point) {
  return absl::StrCat(point.write ? "writes" : "reads", " of ", FormatSize(point.io_bytes), ", ",
                      point.depth, " at a time");
}

std::string TextOf(const SweepPoint& point) {
  return absl::StrCat(point.scattered ? "scattered, block size " : "fresh, stripe breadth ",
                      FormatSize(point.geometry_bytes), ": ", WorkOf(point));
}

absl::Status CheckSweep(const SweepOptions& options) {
  if (options.block_sizes.empty() || options.breadths.empty() || options.io_sizes.empty() ||
      options.depths.empty()) {
    return absl::InvalidArgumentError("a list of sizes or depths is empty");
  }
  for (const std::uint64_t bytes : options.block_sizes) {
    if (absl::Status s = CheckBlock(bytes); !s.ok()) return s;
  }
  for (const std::uint64_t bytes : options.breadths) {
    if (absl::Status s = CheckMultiple("stripe breadth", bytes, tools::kMaxBreadthBytes); !s.ok()) {
      return s;
    }
  }
  for (const std::uint64_t bytes : options.io_sizes) {
    if (absl::Status s = CheckMultiple("I/O size", bytes, kMaxIoBytes); !s.ok()) return s;
  }
  for (const std::uint32_t depth : options.depths) {
    if (depth == 0 || depth > kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("depth ", depth, ": must be 1 to ", kMaxDepth));
    }
  }
  if (HasTwice(options.block_sizes) || HasTwice(options.breadths) || HasTwice(options.io_sizes) ||
      HasTwice(options.depths)) {
    return absl::InvalidArgumentError("a size or depth is given twice");
  }
  return absl::OkStatus();
}

std::vector<SweepPoint> PointsOf(const SweepOptions& options) {
  std::vector<SweepPoint> points;
  for (const bool write : {false, true}) {
    for (const std::uint64_t io : options.io_sizes) {
      for (const std::uint32_t depth : options.depths) {
        // Those that are compared follow one another: what the machine does falls on all of them.
        for (const std::uint64_t breadth : options.breadths) {
          points.push_back({false, breadth, io, depth, write});
        }
        for (const std::uint64_t block : options.block_sizes) {
          points.push_back({true, block, io, depth, write});
        }
      }
    }
  }
  return points;
}

}  // namespace reel::bench
