// What whoever fences tells the core. Threads: plain values.
#pragma once

#include <cstdint>
#include <string>

namespace reel::mdc {

// What became of an order to fence. Unknown is not done.
struct FenceOutcome {
  bool done = false;
  std::string problem{};  // when not done
  // Where a LUN could not be reset: what was sent before may still be executing for that long.
  std::uint64_t quarantine_ms = 0;
};

}  // namespace reel::mdc
