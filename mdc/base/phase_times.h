// How long the parts of something took that is done one part after the other, for the log.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "volume/base/env.h"

namespace reel::mdc {

class PhaseTimes {
 public:
  // `clock` outlives it.
  explicit PhaseTimes(const Clock& clock)
      : clock_(clock), began_ms_(clock.NowMs()), last_ms_(began_ms_) {}

  // What was done since the last call, or since the beginning.
  void Ended(const std::string& what) {
    const std::uint64_t now_ms = clock_.NowMs();
    absl::StrAppend(&parts_, parts_.empty() ? "" : ", ", what, " ", now_ms - last_ms_);
    last_ms_ = now_ms;
  }
  // "40 ms (LUNs 10, seat 30)".
  std::string Text() const { return absl::StrCat(last_ms_ - began_ms_, " ms (", parts_, ")"); }

 private:
  const Clock& clock_;
  const std::uint64_t began_ms_;
  std::uint64_t last_ms_;
  std::string parts_;
};

}  // namespace reel::mdc
