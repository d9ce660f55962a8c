// Which files programs will open next, because they play a sequence of frames: the policy.
//
// A *sequence* is the files of a directory whose names differ in one number; a *stream* is a player
// that goes through one by equal steps, forward or back (every n-th frame where it scrubs). Three
// opens by equal steps make a stream, whatever other opens lie between them; several streams may go
// through one sequence. What is to be fetched grows as long as it proves right, from 2 frames to
// kFramesAhead. Invariants:
//   1. Nothing is kept of more than kMaxPatterns sequences, kMaxStreams streams in each, and
//      kMaxNames names; nor of what nobody has opened for kPauseMs. A stream ends earlier where its
//      player seems to have gone elsewhere in the sequence (IsLeft).
//   2. A frame is asked for once. Where one is missing (nobody has made it yet, or another host is
//      writing it), none beyond it is asked for, and it once more with each open that has come
//      within kNearFrames.
//   3. Bytes are asked for as far as the readers of the last frames have come, for frames that are
//      due within kDueMs, and as many as fit into the memory that there is, with the one that is
//      being read now.
// Threads: externally synchronised; `now_ms` never goes back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ahead/frame_name.h"

namespace reel::client {

class FrameSequences {
 public:
  static constexpr std::size_t kMaxPatterns = 32;
  static constexpr std::size_t kMaxStreams = 4;
  static constexpr std::size_t kMaxNames = 32;
  static constexpr std::uint64_t kFramesAhead = 8;
  static constexpr std::int64_t kNearFrames = 2;
  static constexpr std::uint64_t kPauseMs = 3'000;
  static constexpr std::uint64_t kDueMs = 1'000;
  static constexpr std::uint64_t kLeftMs = 100;

  // A frame that is wanted: its inode and layout, and so many of its first bytes.
  struct Frame {
    std::uint64_t stream = 0;
    std::uint64_t directory = 0;
    std::uint64_t number = 0;
    std::string name;
    std::uint64_t bytes = 0;
  };
  struct Plan {
    std::vector<Frame> fetch;
    std::vector<std::uint64_t> ended;  // streams whose other frames nobody will come for
    bool played = false;               // what was opened belongs to a sequence that has a stream
  };
  struct Opened {
    std::uint64_t directory = 0;
    std::string_view name;
    std::uint64_t size_bytes = 0;
    std::uint64_t now_ms = 0;
    std::uint64_t memory_bytes = 0;  // for the bytes of all streams' frames
  };

  // A file was opened to be read.
  Plan Open(const Opened& opened);
  // A file was closed; of its `size_bytes` it was read up to there.
  void Close(std::uint64_t directory, std::string_view name, std::uint64_t read_to_bytes,
             std::uint64_t size_bytes);
  // There is no such frame, or it cannot be had without taking something from another host.
  void NoteMissing(const Frame& frame);

 private:
  struct Stream {
    std::uint64_t id = 0;
    std::int64_t step = 0;
    std::int64_t last = 0;  // the furthest that was opened
    // What was asked for up to, but not including, that one.
    std::int64_t next_name = 0, next_bytes = 0;
    std::optional<std::int64_t> missing{};
    std::uint64_t frames_ahead = 2;
    std::uint64_t opened_ms = 0;
    std::uint64_t interval_ms = 0;  // between opens, about; 0: not known yet

    // How many steps it is from the last one; nullopt: it is none of this stream's.
    std::optional<std::int64_t> StepsTo(std::int64_t number) const;
    // Its player has not come for its next frames in time, while frames elsewhere are opened.
    bool IsLeft(std::uint64_t now_ms) const {
      return now_ms - opened_ms > std::max(kLeftMs, 4 * interval_ms);
    }
    bool IsBehind(std::int64_t number, std::int64_t of) const {
      return step > 0 ? number < of : number > of;
    }
  };
  struct Reading {
    std::uint64_t to_bytes = 0;
    bool whole = false;
  };
  struct Pattern {
    std::uint64_t directory = 0;
    FramePattern form;
    std::deque<std::int64_t> opened;  // of late; the last one is at the end
    std::vector<Stream> streams;
    std::deque<Reading> readings;
    std::uint64_t opened_ms = 0;
  };
  struct Name {
    std::uint64_t directory = 0;
    std::string name;
    std::uint64_t opened_ms = 0;
  };

  void Forget(std::uint64_t now_ms, Plan& plan);
  static void End(const Pattern& pattern, Plan& plan);
  // A pattern of this name and one that was opened before.
  void FindPattern(const Opened& opened, Plan& plan);
  void Follow(Pattern& pattern, std::int64_t number, const Opened& opened, Plan& plan);
  Stream& Begin(Pattern& pattern, std::int64_t number, std::int64_t step, Stream* turned,
                Plan& plan);
  static void Advance(Stream& stream, std::int64_t number, std::uint64_t now_ms);
  void Ask(const Pattern& pattern, Stream& stream, const Opened& opened, Plan& plan) const;
  // How many of the next frames are to have how many of their bytes.
  struct Part {
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
  };
  Part PartOf(const Pattern& pattern, const Stream& stream, const Opened& opened) const;

  std::list<Pattern> patterns_;  // the last used is in front
  std::deque<Name> names_;       // that belong to none
  std::uint64_t last_id_ = 0;
};

}  // namespace reel::client
