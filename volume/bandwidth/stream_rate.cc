#include "volume/bandwidth/stream_rate.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "volume/base/size.h"

namespace reel {
namespace {

constexpr std::uint32_t kMostFrames = 1000;

}  // namespace

absl::StatusOr<StreamRate> ParseStreamRate(std::string_view text) {
  const std::size_t times = text.find('x');
  const bool framed = times != text.npos;
  const auto size = ParseSize(framed ? text.substr(times + 1) : text);
  std::uint32_t frames = 1;
  const bool counted = !framed || absl::SimpleAtoi(std::string(text.substr(0, times)), &frames);
  if (!size.ok() || !counted || frames == 0 || frames > kMostFrames) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(std::string(text.substr(0, 40))),
                     "\" is no rate: 400M is one, in MiB a second, and so is 24x12M, which is 24 "
                     "frames of 12 MiB a second"));
  }
  if (*size > kMostStreamRateBytes / frames || frames * *size < kLeastStreamRateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a rate is ", FormatSize(kLeastStreamRateBytes),
                                                   "/s at least, and ",
                                                   FormatSize(kMostStreamRateBytes), "/s at most"));
  }
  StreamRate rate{.rate_bytes = frames * *size};
  if (framed) {
    rate.frames = frames;
    rate.frame_bytes = *size;
  }
  return rate;
}

std::string StreamRateText(const StreamRate& rate) {
  if (rate.frames == 0) return absl::StrCat(rate.rate_bytes);
  return absl::StrCat(rate.frames, "x", rate.frame_bytes);
}

}  // namespace reel
