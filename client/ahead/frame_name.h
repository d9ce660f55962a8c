// The name of a file as one frame of a sequence: a number, and what stands around it.
//
// `shot_v2.000123.dpx` has three fields that may be the number; which one it is shows when a second
// name differs from it in one of them alone. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reel::client {

struct FramePattern {
  std::string before;
  std::string after;
  std::size_t digits = 1;  // at least: shorter numbers have zeros in front
  bool padded = false;     // such zeros were seen, so numbers are never shorter

  std::string NameOf(std::uint64_t number) const;
  // The number of a name of this pattern. Learns from it how numbers are written.
  std::optional<std::uint64_t> NumberOf(std::string_view name);
};

bool HasDigit(std::string_view name);

// The pattern of two names that differ in one number; nullopt: they do not, or in more than that.
std::optional<FramePattern> PatternOf(std::string_view a, std::string_view b);

}  // namespace reel::client
