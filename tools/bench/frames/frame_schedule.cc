#include "tools/bench/frames/frame_schedule.h"

#include <cmath>
#include <limits>

namespace reel::bench {
namespace {

constexpr double kNs = 1e9;

}  // namespace

std::int64_t FrameSchedule::AtPeriod(double periods) const {
  return std::llround(periods * kNs / options_.fps);
}

std::uint64_t FrameSchedule::preroll() const {
  return has_clock() && !options_.write ? options_.buffers + 1ull : 0;
}

std::int64_t FrameSchedule::PeriodNs() const {
  return has_clock() ? AtPeriod(1) : 0;
}

std::int64_t FrameSchedule::MayStartNs(std::uint64_t frame) const {
  if (!has_clock() || frame < preroll()) return std::numeric_limits<std::int64_t>::min();
  const auto number = static_cast<double>(frame);
  return AtPeriod(options_.write ? number : number - options_.buffers);
}

std::int64_t FrameSchedule::DueNs(std::uint64_t frame) const {
  if (!has_clock()) return std::numeric_limits<std::int64_t>::max();
  const auto number = static_cast<double>(frame);
  return AtPeriod(options_.write ? number + options_.buffers : number);
}

FrameSchedule::Verdict FrameSchedule::Judge(std::uint64_t frame, std::int64_t done_ns) const {
  if (!has_clock() || frame < preroll() || done_ns <= DueNs(frame)) return Verdict::kOnTime;
  return done_ns < DueNs(frame) + PeriodNs() ? Verdict::kLate : Verdict::kDropped;
}

bool FrameSchedule::IsOver(std::uint64_t frame, std::int64_t now_ns) const {
  return has_clock() && frame >= preroll() && now_ns >= DueNs(frame) + PeriodNs();
}

}  // namespace reel::bench
