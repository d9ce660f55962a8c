#include "tools/bench/frames/frame_format.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "volume/base/size.h"

namespace reel::bench {
namespace {

constexpr std::uint64_t kDpxHeader = 2048;
// Magic and version, the eight attributes without their channels, and the end of the header.
constexpr std::uint64_t kExrHeader = 8 + 21 + 29 + 37 + 40 + 25 + 31 + 35 + 32 + 1;
constexpr std::uint64_t kExrChannel = 18;  // of the list of channels, each named by one letter
constexpr std::uint64_t kExrLine = 8 + 8;  // its place in the table of offsets, and its head

struct Codec {
  const char* name;
  const char* extension;
  FrameCodec codec;
};
constexpr Codec kCodecs[] = {{"dpx", "dpx", FrameCodec::kDpx10},
                             {"exr", "exr", FrameCodec::kExrHalf},
                             {"exra", "exr", FrameCodec::kExrHalfAlpha}};

std::uint64_t ExrBytes(const PictureSize& size, std::uint64_t channels) {
  const std::uint64_t line = kExrLine + 2 * channels * size.width;
  return kExrHeader + kExrChannel * channels + line * size.height;
}

absl::Status Unknown(const std::string& text) {
  std::vector<std::string> sizes;
  for (const PictureSize& size : PictureSizes()) sizes.push_back(size.name);
  return absl::InvalidArgumentError(
      absl::StrCat("no format \"", text, "\": it is a picture (", absl::StrJoin(sizes, ", "),
                   ") with -dpx, -exr or -exra, such as 4k-dpx, or the size of a frame, such as "
                   "50MiB"));
}

}  // namespace

const std::vector<PictureSize>& PictureSizes() {
  static const auto* const sizes = new std::vector<PictureSize>{
      {"hd", 1920, 1080},  {"2k", 2048, 1080},    {"2k-full", 2048, 1556},
      {"uhd", 3840, 2160}, {"4k", 4096, 2160},    {"4k-full", 4096, 3112},
      {"6k", 6144, 3160},  {"uhd8k", 7680, 4320}, {"8k", 8192, 4320}};
  return *sizes;
}

std::uint64_t FrameBytes(const PictureSize& size, FrameCodec codec) {
  switch (codec) {
    case FrameCodec::kDpx10:
      return kDpxHeader + 4ull * size.width * size.height;
    case FrameCodec::kExrHalf:
      return ExrBytes(size, 3);
    case FrameCodec::kExrHalfAlpha:
      return ExrBytes(size, 4);
  }
  return 0;
}

absl::StatusOr<FrameFormat> ParseFrameFormat(const std::string& text) {
  const std::string name = absl::AsciiStrToLower(text);
  for (const PictureSize& size : PictureSizes()) {
    if (name == size.name) return Unknown(text);  // and no size of 4 KiB
    for (const Codec& codec : kCodecs) {
      if (name != absl::StrCat(size.name, "-", codec.name)) continue;
      return FrameFormat{name, codec.extension, FrameBytes(size, codec.codec)};
    }
  }
  const auto bytes = ParseSize(text);
  constexpr std::uint64_t kMost = 4ull << 30;
  if (!bytes.ok()) return Unknown(text);
  if (*bytes == 0 || *bytes > kMost) {
    return absl::InvalidArgumentError("a frame is of 1 byte to 4 GiB");
  }
  return FrameFormat{FormatSize(*bytes), "frame", *bytes};
}

}  // namespace reel::bench
