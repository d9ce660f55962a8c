// The checksum of a structure that holds its own. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "volume/base/coding.h"

namespace reel {

// The structure's own checksum, four bytes at `place`, counts as zeros.
inline std::uint32_t ChecksumAround(std::span<const std::byte> bytes, std::size_t place) {
  constexpr std::byte kZeros[4] = {};
  std::uint32_t crc = Crc32c(bytes.first(place));
  crc = ExtendCrc32c(crc, kZeros);
  return ExtendCrc32c(crc, bytes.subspan(place + 4));
}

}  // namespace reel
