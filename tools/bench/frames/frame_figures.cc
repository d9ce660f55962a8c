#include "tools/bench/frames/frame_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace reel::bench {
namespace {

constexpr std::size_t kSlowest = 10;
constexpr double kMs = 1e6;

std::int64_t TotalNs(const FrameRecord& record) {
  return record.times.open_ns + record.times.io_ns;
}

}  // namespace

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::clamp<std::size_t>(at, 1, values.size()) - 1];
  };
  return {rank(0.5), rank(0.99), values.back()};
}

FrameFigures FiguresOf(const StreamRun& run, double fps, std::uint64_t frame_bytes) {
  FrameFigures figures;
  std::vector<double> open_ms, io_ms;
  double spare = std::numeric_limits<double>::infinity();
  for (const FrameRecord& record : run.frames) {
    ++figures.frames;
    figures.on_time += record.verdict == FrameSchedule::Verdict::kOnTime ? 1 : 0;
    figures.late += record.verdict == FrameSchedule::Verdict::kLate ? 1 : 0;
    figures.dropped += record.verdict == FrameSchedule::Verdict::kDropped ? 1 : 0;
    if (!record.done) continue;
    open_ms.push_back(static_cast<double>(record.times.open_ns) / kMs);
    io_ms.push_back(static_cast<double>(record.times.io_ns) / kMs);
    if (record.spare_ms != 0) spare = std::min(spare, record.spare_ms);
    figures.slowest.push_back(record);
  }
  const double seconds = std::max(run.seconds, 1e-9);
  const auto shown = static_cast<double>(figures.on_time + figures.late);
  const double asked = static_cast<double>(std::max<std::uint64_t>(1, figures.frames));
  figures.fps = fps > 0 ? fps * shown / asked : shown / seconds;
  figures.bytes_per_second =
      static_cast<double>(open_ms.size()) * static_cast<double>(frame_bytes) / seconds;
  figures.least_spare_ms = std::isfinite(spare) ? spare : 0;
  figures.open_ms = PercentilesOf(std::move(open_ms));
  figures.io_ms = PercentilesOf(std::move(io_ms));
  const std::size_t kept = std::min(kSlowest, figures.slowest.size());
  std::partial_sort(
      figures.slowest.begin(), figures.slowest.begin() + static_cast<std::ptrdiff_t>(kept),
      figures.slowest.end(),
      [](const FrameRecord& a, const FrameRecord& b) { return TotalNs(a) > TotalNs(b); });
  figures.slowest.resize(kept);
  return figures;
}

std::vector<std::string> ShortfallsOf(const std::vector<std::string>& names,
                                      const std::vector<FrameFigures>& figures,
                                      const Required& required) {
  // What rounding takes away is not missed.
  constexpr double kRounding = 1e-6;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (required.fps && figures[i].fps < *required.fps * (1 - kRounding)) {
      lines.push_back(absl::StrFormat("%s: %.2f frames a second, %.2f are required", names[i],
                                      figures[i].fps, *required.fps));
    }
    const std::uint64_t late = figures[i].late + figures[i].dropped;
    if (required.late && late > *required.late) {
      lines.push_back(absl::StrFormat("%s: %d frames late or dropped, %d may be", names[i], late,
                                      *required.late));
    }
  }
  return lines;
}

}  // namespace reel::bench
