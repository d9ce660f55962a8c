// What a stream came to: the rate that a viewer saw, late and dropped frames, how long opening and
// moving took, and which frame was the slowest. And whether that is enough. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/frames/frame_player.h"

namespace reel::bench {

struct Percentiles {
  double p50 = 0, p99 = 0, most = 0;
};
// By nearest rank; zeros of nothing.
Percentiles PercentilesOf(std::vector<double> values);

struct FrameFigures {
  std::uint64_t frames = 0, on_time = 0, late = 0, dropped = 0;
  // Shown (or kept), on time or late, a second.
  double fps = 0;
  double bytes_per_second = 0;  // moved
  Percentiles open_ms, io_ms;
  double least_spare_ms = 0;         // of the frames that had a time: how near it came
  std::vector<FrameRecord> slowest;  // by open and I/O together, the slowest first; at most ten
};
// `fps`: that was asked for; 0: none.
FrameFigures FiguresOf(const StreamRun& run, double fps, std::uint64_t frame_bytes);

struct Required {
  std::optional<double> fps{};          // of each stream
  std::optional<std::uint64_t> late{};  // at most so many late or dropped frames of each
};
// A line for each thing that is not reached; empty: all is.
std::vector<std::string> ShortfallsOf(const std::vector<std::string>& names,
                                      const std::vector<FrameFigures>& figures,
                                      const Required& required);

}  // namespace reel::bench
