// Progress of long work on stderr: on a terminal one line that is written over, elsewhere a line
// for the first step, and then one every few seconds. Thread rule: called by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace reel::bench {

class Progress {
 public:
  // `total`: of equal steps. Says nothing where `quiet`.
  Progress(std::uint64_t total, bool quiet);
  ~Progress() { End(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A step begins; the time that is left is estimated by those that are done.
  void Step(const std::string& what);
  // The line stands, the next output begins a new one.
  void End();

 private:
  const std::uint64_t total_;
  const bool quiet_, terminal_;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point said_;
  std::uint64_t begun_ = 0;
  bool open_ = false;
};

// "40 s", "3 min", "2 h 10 min".
std::string DurationText(double seconds);

}  // namespace reel::bench
