// Ends this process where a start goes on that nobody wants any more: SIGTERM or SIGINT has come,
// or the process that waits for the start is gone. Nothing is mounted yet, and nothing can be lost.
//
// A try of the start notices by itself between two steps; one that hangs in a step, as in a LUN
// that does not answer, is ended with the process. Threads: one of its own, from here to its end.
#pragma once

#include <atomic>

#include "client/mount/background.h"
#include "volume/base/thread.h"

namespace reel::client {

class StartWatch {
 public:
  // `background` outlives it. `exit_code`: of the process that it ends.
  StartWatch(const Background& background, int exit_code);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void Main();

  const Background& background_;
  const int exit_code_;
  std::atomic<bool> over_{false};
  Thread thread_;
};

}  // namespace reel::client
