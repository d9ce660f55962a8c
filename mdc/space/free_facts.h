// The free space of one data pool, for people. Threads: a value.
#pragma once

#include <cstdint>

#include "mdc/space/free_index.h"

namespace reel::mdc {

// In blocks.
struct FreeFacts {
  std::uint64_t free = 0;     // may be given out now, windows included
  std::uint64_t windows = 0;  // of that
  std::uint64_t closed = 0;   // free, where nothing is allocated
  std::uint64_t reserved = 0;
  std::uint64_t largest_run = 0;
  FreeIndex::Classes classes{};  // of runs that are in no window
};

}  // namespace reel::mdc
