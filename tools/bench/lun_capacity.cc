#include "tools/bench/lun_capacity.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace reel::bench {
namespace {

constexpr std::uint32_t kDepth = 16;
constexpr double kMebi = 1 << 20;

IoShape Shape(bool write, bool small) {
  return {.name = absl::StrCat(small ? "4 KiB " : "1 MiB ", write ? "writes" : "reads"),
          .write = write,
          .random = small,
          .direct = true,
          .io_bytes = small ? 4096u : 1u << 20,
          .depth = kDepth};
}

}  // namespace

std::uint64_t LunCapacity::rate_bytes() const {
  return static_cast<std::uint64_t>(std::min(read_bytes, written_bytes) / kMebi) << 20;
}

std::uint64_t LunCapacity::rate_requests() const {
  return static_cast<std::uint64_t>(std::min(reads, writes));
}

absl::StatusOr<LunCapacity> MeasureLuns(const Side& side, const IoOptions& options, bool progress) {
  auto scratch = ScratchDirectory::Make(side);
  if (!scratch.ok()) return scratch.status();
  if (progress) std::fprintf(stderr, "laying out %s/data\n", scratch->path().c_str());
  if (absl::Status s = LayOutFile(scratch->path(), options.file_bytes); !s.ok()) return s;
  LunCapacity capacity;
  for (const bool small : {false, true}) {
    for (const bool write : {true, false}) {
      const IoShape shape = Shape(write, small);
      if (progress) std::fprintf(stderr, "%s\n", shape.name.c_str());
      const auto measure = MakeIoLoad(shape, options, scratch->path())->Run();
      if (!measure.ok()) return measure.status();
      const double seconds = std::max(measure->seconds, 1e-9);
      const double result = (small ? measure->operations : measure->bytes) / seconds;
      double& figure = small ? (write ? capacity.writes : capacity.reads)
                             : (write ? capacity.written_bytes : capacity.read_bytes);
      figure = result;
    }
  }
  return capacity;
}

std::string CapacityText(const LunCapacity& capacity) {
  return absl::StrFormat(
      "1 MiB, depth %d: reads %.0f MiB/s, writes %.0f MiB/s\n"
      "4 KiB, depth %d: reads %.0f/s, writes %.0f/s\n"
      "As much as this host gets of the LUNs. To store it:\n"
      "  reeladm qos capacity POOL %dM %d\n",
      kDepth, capacity.read_bytes / kMebi, capacity.written_bytes / kMebi, kDepth, capacity.reads,
      capacity.writes, capacity.rate_bytes() >> 20, capacity.rate_requests());
}

nlohmann::ordered_json CapacityJson(const LunCapacity& capacity) {
  return {{"read_bytes", capacity.read_bytes},
          {"written_bytes", capacity.written_bytes},
          {"reads", capacity.reads},
          {"writes", capacity.writes},
          {"capacity_bytes", capacity.rate_bytes()},
          {"capacity_requests", capacity.rate_requests()}};
}

}  // namespace reel::bench
