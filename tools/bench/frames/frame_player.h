// Plays one stream of frames, or records one, against its clock: takes the frames in order, waits
// until each may begin (FrameSchedule), and notes how it went. Thread rule: one thread owns a
// player; Play starts `threads` of its own and joins them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/frames/frame_file.h"
#include "tools/bench/frames/frame_order.h"
#include "tools/bench/frames/frame_schedule.h"

namespace reel::bench {

struct FrameRecord {
  std::uint64_t frame = 0;   // as the stream counts them
  std::uint64_t number = 0;  // of its file, or its place in one
  FrameSchedule::Verdict verdict = FrameSchedule::Verdict::kOnTime;
  bool done = false;    // false: dropped before it began
  double at_s = 0;      // when it was done, since the stream began
  double spare_ms = 0;  // before it was due; negative: after
  FrameTimes times{};
};

struct StreamRun {
  std::string name{};       // of the stream
  std::string directory{};  // that it was played from
  bool write = false;
  double seconds = 0;
  std::vector<FrameRecord> frames{};  // by frame
};

struct PlayOptions {
  FrameSchedule::Options schedule{};
  FramePattern pattern = FramePattern::kForward;
  std::uint64_t numbers = 1;  // frames of the sequence
  std::uint64_t frames = 0;   // to be played; 0: until `seconds` are over
  double seconds = 10;
  std::uint32_t threads = 2;  // frames on their way at a time
  std::uint64_t seed = 1;
};

// Ends early, without an error, when `stop` is set; sets it when it fails, so that others that wait
// for its frames end too.
absl::StatusOr<StreamRun> Play(FrameFiles& files, const PlayOptions& options,
                               std::atomic<bool>& stop);

}  // namespace reel::bench
