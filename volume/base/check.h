// The check of an invariant of ours: ends the process with one line, in release builds too.
//
// Never for bytes that came from a LUN, a peer or a user; those are answered with a Status.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "absl/base/optimization.h"

namespace reel {

[[noreturn]] inline void CheckFailed(const char* condition, const char* why, const char* file,
                                     int line) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s (%s)\n", file, line, why, condition);
  std::abort();
}

}  // namespace reel

#define REEL_CHECK(condition, why)                              \
  do {                                                          \
    if (ABSL_PREDICT_FALSE(!(condition))) {                     \
      ::reel::CheckFailed(#condition, why, __FILE__, __LINE__); \
    }                                                           \
  } while (false)
