// Whether more is read from a stream: not while too much of it waits for the core, by requests or
// by bytes. Threads: none of its own; not thread-safe.
#pragma once

#include <cstddef>
#include <deque>

namespace reel::mdc {

class ReadGate {
 public:
  static constexpr std::size_t kMaxRequests = 1024;
  // Beyond that one frame at most.
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

  // A frame was read; true: the next one may be.
  bool Queued(std::size_t requests, std::size_t bytes) {
    frames_.push_back({requests, bytes});
    requests_ += requests;
    bytes_ += bytes;
    paused_ = requests_ >= kMaxRequests || bytes_ >= kMaxBytes;
    return !paused_;
  }
  // The core has taken the first frame; true: reading, which had paused, goes on.
  bool Taken() {
    if (frames_.empty()) return false;
    requests_ -= frames_.front().requests;
    bytes_ -= frames_.front().bytes;
    frames_.pop_front();
    if (!paused_ || requests_ >= kMaxRequests / 2 || bytes_ >= kMaxBytes / 2) return false;
    paused_ = false;
    return true;
  }

 private:
  struct Frame {
    std::size_t requests = 0;
    std::size_t bytes = 0;
  };
  std::deque<Frame> frames_;  // that wait
  std::size_t requests_ = 0;
  std::size_t bytes_ = 0;
  bool paused_ = false;
};

}  // namespace reel::mdc
