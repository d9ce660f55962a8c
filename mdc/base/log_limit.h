// Keeps clients from filling the log: of one kind of line, so many in so long; the next one that is
// written says how many were left out. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::mdc {

class LogLimit {
 public:
  static constexpr std::uint64_t kLines = 20;
  static constexpr std::uint64_t kPeriodMs = 10'000;

  // What to put behind the line, which may be nothing; none: it is not written.
  std::optional<std::string> Admit(std::uint64_t now_ms) {
    if (now_ms - begun_ms_ >= kPeriodMs) {
      begun_ms_ = now_ms;
      lines_ = 0;
    }
    if (lines_ == kLines) {
      ++left_out_;
      return std::nullopt;
    }
    ++lines_;
    const std::uint64_t left_out = std::exchange(left_out_, 0);
    return left_out == 0 ? "" : absl::StrCat(" (and ", left_out, " more such lines before)");
  }

 private:
  std::uint64_t begun_ms_ = 0;
  std::uint64_t lines_ = 0;  // since then
  std::uint64_t left_out_ = 0;
};

}  // namespace reel::mdc
