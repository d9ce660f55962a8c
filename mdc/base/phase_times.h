// How long the parts of something took that is done one part after the other.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "volume/base/env.h"

namespace reel::mdc {

class PhaseTimes {
 public:
  // `clock` outlives it.
  explicit PhaseTimes(const Clock& clock)
      : clock_(clock), began_ms_(clock.NowMs()), last_ms_(began_ms_) {}

  // What was done since the last call, or since the beginning.
  void Ended(std::string what) {
    const std::uint64_t now_ms = clock_.NowMs();
    parts_.push_back({std::move(what), now_ms - last_ms_});
    last_ms_ = now_ms;
  }
  struct Part {
    std::string what;
    std::uint64_t ms = 0;
  };
  const std::vector<Part>& parts() const { return parts_; }
  // "40 ms (LUNs 10, seat 30)".
  std::string Text() const {
    const auto format = [](std::string* out, const Part& part) {
      absl::StrAppend(out, part.what, " ", part.ms);
    };
    return absl::StrCat(last_ms_ - began_ms_, " ms (", absl::StrJoin(parts_, ", ", format), ")");
  }

 private:
  const Clock& clock_;
  const std::uint64_t began_ms_;
  std::uint64_t last_ms_;
  std::vector<Part> parts_;
};

}  // namespace reel::mdc
