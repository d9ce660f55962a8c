// Bytes that neither compress nor repeat within a buffer: arrays and file systems that compress or
// deduplicate would flatter themselves with others. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "volume/base/aligned_buffer.h"

namespace reel::bench {

// The next of a sequence that `state` stands for.
std::uint64_t NextRandom(std::uint64_t& state);

// REQUIRES: a multiple of 8.
AlignedBuffer NoiseBuffer(std::size_t size_bytes);

}  // namespace reel::bench
