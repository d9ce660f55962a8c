#include "tools/bench/noise.h"

#include <cstring>

namespace reel::bench {

std::uint64_t NextRandom(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 24;
}

AlignedBuffer NoiseBuffer(std::size_t size_bytes) {
  AlignedBuffer buffer(size_bytes);
  std::uint64_t state = 88172645463325252u;
  for (std::size_t i = 0; i < size_bytes; i += sizeof(std::uint64_t)) {
    const std::uint64_t value = NextRandom(state);
    std::memcpy(buffer.data() + i, &value, sizeof(value));
  }
  return buffer;
}

}  // namespace reel::bench
