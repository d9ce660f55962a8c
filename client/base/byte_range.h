// A range of a file's bytes.
#pragma once

#include <cstdint>

namespace reel::client {

struct ByteRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

}  // namespace reel::client
