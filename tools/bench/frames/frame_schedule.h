// When each frame of a stream may begin, and when it is due. The clock never waits for a frame, as
// that of a screen or a camera does not.
//
// A player has `buffers` frames ahead of the one that it shows. It fills them, and one to show,
// before its clock starts. Frame n is due at n periods, when it is to be shown; it may be read from
// `buffers` periods before, when the frame whose buffer it takes is gone. A frame that is not there
// when it is due, but before its period is over, is *late*: it is shown for too short. Beyond that
// it is *dropped*; and what has not begun by then is not begun at all, as a player goes on with the
// next.
// A recorder gets frame n at n periods. It has to be in its file `buffers` periods later, when its
// buffer is needed again: late and dropped are as above.
// Pure; times are nanoseconds since the clock started. Without a rate (0) frames are never due.
#pragma once

#include <cstdint>

namespace reel::bench {

class FrameSchedule {
 public:
  struct Options {
    double fps = 24;  // 0: as fast as it goes
    std::uint32_t buffers = 8;
    bool write = false;
  };
  explicit FrameSchedule(const Options& options) : options_(options) {}

  bool has_clock() const { return options_.fps > 0; }
  // How many frames are done before the clock starts.
  std::uint64_t preroll() const;
  std::int64_t PeriodNs() const;
  std::int64_t MayStartNs(std::uint64_t frame) const;
  std::int64_t DueNs(std::uint64_t frame) const;

  enum class Verdict { kOnTime, kLate, kDropped };
  Verdict Judge(std::uint64_t frame, std::int64_t done_ns) const;
  // It is not worth beginning with it.
  bool IsOver(std::uint64_t frame, std::int64_t now_ns) const;

 private:
  std::int64_t AtPeriod(double periods) const;

  Options options_;
};

}  // namespace reel::bench
