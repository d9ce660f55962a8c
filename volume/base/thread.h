// A thread, as the logic of clients and controllers starts one: std::thread, or in the simulator
// one of many that take turns. Part of the seam of volume/base/mutex.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "volume/base/aligned_buffer.h"

namespace reel {

class Thread {
 public:
  Thread();  // none
  explicit Thread(std::function<void()> main);
  Thread(Thread&&) noexcept;
  Thread& operator=(Thread&&) noexcept;  // REQUIRES: not joinable
  ~Thread();                             // REQUIRES: not joinable

  // True from the start of the thread to its Join.
  bool joinable() const { return running_ != nullptr; }
  // Waits for its end. REQUIRES: joinable, and not called by itself.
  void Join();

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

// The calling thread stands still for so long.
void SleepFor(std::chrono::milliseconds time);

// Lets the calling thread run ahead of all that computes (SCHED_RR), where that is allowed: for
// threads that hardly ever run, and on whose punctuality something depends.
void RaisePriority();

// Memory of the calling thread's own, which it keeps until it ends; of size 0 at first.
AlignedBuffer& ThreadBuffer();

}  // namespace reel
