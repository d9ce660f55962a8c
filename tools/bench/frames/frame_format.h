// How large a frame is: picture sizes by name, and what DPX and EXR make of them, to the byte.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace reel::bench {

struct PictureSize {
  std::string name;
  std::uint32_t width = 0, height = 0;
};
// From HD to 8K.
const std::vector<PictureSize>& PictureSizes();

// DPX: 2048 bytes of header, and 10 bits a channel of RGB in 4 bytes a pixel (filled, SMPTE 268M).
// EXR: half floats, no compression, one scan line a block (each with an offset of 8 bytes and a
// head of 8); the header has only the attributes that every file must have.
enum class FrameCodec { kDpx10, kExrHalf, kExrHalfAlpha };

struct FrameFormat {
  std::string name;       // "4k-dpx", or the size alone
  std::string extension;  // of its files
  std::uint64_t bytes = 0;
};

// "4k-dpx", "uhd-exr", "8k-exra" (with alpha), or a size such as "50MiB" for anything else.
// INVALID_ARGUMENT lists what there is.
absl::StatusOr<FrameFormat> ParseFrameFormat(const std::string& text);

std::uint64_t FrameBytes(const PictureSize& size, FrameCodec codec);

}  // namespace reel::bench
