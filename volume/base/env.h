// Clock and randomness, as interfaces, so that the cores run under a simulator.
#pragma once

#include <cstdint>

namespace reel {

struct WallTime {  // since the Unix epoch; 64-bit seconds, 0 <= nanoseconds < 1e9
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
};

// Threads: all methods may be called concurrently.
class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds that never go back and that count suspension too (CLOCK_BOOTTIME): for leases.
  virtual std::uint64_t NowMs() const = 0;
  // The time of day: for inode times only, never for leases.
  virtual WallTime WallNow() const = 0;
};

// The machine's own clock; lives for the whole process.
const Clock& SystemClock();

// Cryptographically strong, from getrandom(2).
std::uint64_t RandomU64();

}  // namespace reel
