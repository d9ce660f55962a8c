// Sizes in bytes that tests of LUNs share.
#pragma once

#include <cstdint>

namespace reel {

inline constexpr std::uint64_t kBlock = 4096;
inline constexpr std::uint64_t kImageBytes = 4 << 20;

}  // namespace reel
