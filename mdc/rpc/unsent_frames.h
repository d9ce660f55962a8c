// The frames of one stream that wait to be written, and what the stream does next.
//
// Invariants:
//   1. One write is under way at a time, in the order of Add.
//   2. The stream is finished once: when it is to end, nothing is being written and nothing waits.
//   3. A peer that does not read is cut off once, when more than kMaxBytes wait for it.
// Threads: none of its own; not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "proto/mdc.pb.h"

namespace reel::mdc {

class UnsentFrames {
 public:
  static constexpr std::size_t kMaxBytes = 64 << 20;
  enum class Added { kWaits, kDropped, kTooMuch };
  enum class Step { kNothing, kWrite, kFinish };

  // kDropped: the stream is ending. kTooMuch: it is to be cut off; said once.
  Added Add(v1::ServerFrame frame) {
    if (finished_ || ending_ || cut_off_) return Added::kDropped;
    bytes_ += frame.ByteSizeLong();
    if (bytes_ > kMaxBytes) {
      cut_off_ = true;
      return Added::kTooMuch;
    }
    frames_.push_back(std::move(frame));
    return Added::kWaits;
  }
  // The last one: the stream ends behind it.
  void AddLast(v1::ServerFrame frame) {
    bytes_ += frame.ByteSizeLong();
    frames_.push_back(std::move(frame));
    ending_ = true;
  }
  // After everything that waits.
  void End() { ending_ = true; }
  // What waits is not wanted any more.
  void Discard() {
    frames_.clear();
    bytes_ = 0;
  }
  // What is to be done now; kWrite: of `*frame`, until Written.
  Step Next(v1::ServerFrame* frame) {
    if (writing_ || finished_) return Step::kNothing;
    if (!frames_.empty()) {
      *frame = std::move(frames_.front());
      frames_.pop_front();
      bytes_ -= frame->ByteSizeLong();
      writing_ = true;
      return Step::kWrite;
    }
    finished_ = ending_;
    return finished_ ? Step::kFinish : Step::kNothing;
  }
  // False: no further write can succeed.
  void Written(bool ok) {
    writing_ = false;
    if (!ok) Discard();
  }

  bool finished() const { return finished_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::deque<v1::ServerFrame> frames_;
  std::size_t bytes_ = 0;
  bool writing_ = false;
  bool ending_ = false;
  bool cut_off_ = false;
  bool finished_ = false;
};

}  // namespace reel::mdc
