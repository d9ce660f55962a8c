// How people and programs say how fast a stream is: "400M", bytes a second; "24x12M", so many
// frames a second of that size. Sizes as in volume/base/size.h. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel {

struct StreamRate {
  std::uint64_t rate_bytes = 0;  // in a second
  std::uint32_t frames = 0;      // in a second; 0: it was said in bytes
  std::uint64_t frame_bytes = 0;
};

inline constexpr std::uint64_t kLeastStreamRateBytes = 64 << 10;
inline constexpr std::uint64_t kMostStreamRateBytes = std::uint64_t{1} << 44;

// INVALID_ARGUMENT: neither, or beyond those bounds.
absl::StatusOr<StreamRate> ParseStreamRate(std::string_view text);
// What parses to it, with numbers of bytes.
std::string StreamRateText(const StreamRate& rate);

}  // namespace reel
