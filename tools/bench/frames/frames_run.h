// The whole of `reel-bench frames`: lays out the sequences that are to be read, plays and records
// all streams at one time, and removes what it made. Thread rule: called by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/frames/frame_format.h"
#include "tools/bench/frames/frame_player.h"
#include "tools/bench/side.h"

namespace reel::bench {

struct FramesOptions {
  FrameFormat format{};
  double fps = 24;  // 0: as fast as it goes
  FramePattern pattern = FramePattern::kForward;
  std::uint32_t streams = 1;     // in each directory; they write where `write` is set
  std::uint32_t also_write = 0;  // streams that write, beside those
  bool write = false;
  std::uint32_t buffers = 8;
  std::uint32_t threads = 2;
  double seconds = 10;
  std::uint64_t space_bytes = 4ull << 30;  // that the files of all streams may take
  std::uint64_t io_bytes = 0;
  bool direct = true;
  bool sync = false;
  bool progress = false;
  std::string read_through{};  // the same directory, as another mount shows it; empty: none

  // Frames that a stream of the rate plays; 0: without one.
  std::uint64_t FramesOfStream() const;
  // Of the sequence of each stream that reads, or is written over and over: as many as it plays, if
  // there is space for them; then it is played again. At least two more than the player holds.
  std::uint64_t FramesOfSequence(std::uint64_t streams_of_all) const;
};

struct FramesRun {
  FramesOptions options{};
  std::uint64_t sequence_frames = 0;
  std::vector<StreamRun> streams{};
};

// `begin` is called when all is laid out, and the streams start when it returns.
// RESOURCE_EXHAUSTED where a directory has not the space for the sequences.
absl::StatusOr<FramesRun> RunFrames(const std::vector<Side>& directories,
                                    const FramesOptions& options,
                                    const std::function<absl::Status()>& begin);

}  // namespace reel::bench
