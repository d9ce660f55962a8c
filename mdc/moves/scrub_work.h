// What the core keeps of scrubs beside their records: whether the scrubber is to look, and when the
// schedule is looked at next. Threads: the core thread.
#pragma once

#include <cstdint>
#include <utility>

namespace reel::mdc {

struct ScrubWork {
  static constexpr std::uint64_t kScheduleLookMs = 1'000;

  bool changed = false;                // a scrub was begun, paused, resumed or cancelled
  std::uint64_t next_schedule_ms = 0;  // by the clock

  bool TakeChanged() { return std::exchange(changed, false); }
};

}  // namespace reel::mdc
