#include "tools/bench/frames/frame_order.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::bench {
namespace {

constexpr std::array<std::pair<FramePattern, const char*>, 5> kPatterns = {
    {{FramePattern::kForward, "forward"},
     {FramePattern::kReverse, "reverse"},
     {FramePattern::kPingPong, "pingpong"},
     {FramePattern::kScrub, "scrub"},
     {FramePattern::kGrowing, "growing"}}};

// A drag goes over so many frames, each so many on.
constexpr std::uint64_t kMostOfDrag = 24, kMostStep = 4;

}  // namespace

absl::StatusOr<FramePattern> ParseFramePattern(const std::string& text) {
  for (const auto& [pattern, name] : kPatterns) {
    if (name == text) return pattern;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no pattern \"", text, "\": there are forward, reverse, pingpong, scrub and growing"));
}

const char* NameOf(FramePattern pattern) {
  for (const auto& [one, name] : kPatterns) {
    if (one == pattern) return name;
  }
  return "";
}

FrameOrder::FrameOrder(FramePattern pattern, std::uint64_t frames, std::uint64_t seed)
    : pattern_(pattern), frames_(frames), random_(seed * 2654435769u + 1) {}

std::uint64_t FrameOrder::Random(std::uint64_t below) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return (random_ >> 33) % below;
}

std::uint64_t FrameOrder::NextScrubbed() {
  if (left_ == 0) {
    place_ = Random(frames_);
    left_ = 1 + Random(kMostOfDrag);
    step_ = 1 + Random(kMostStep);
    backward_ = Random(2) == 1;
  } else {
    const std::uint64_t step = step_ % frames_;
    place_ = (place_ + (backward_ ? frames_ - step : step)) % frames_;
  }
  --left_;
  return place_;
}

std::uint64_t FrameOrder::Next() {
  const std::uint64_t played = played_++;
  switch (pattern_) {
    case FramePattern::kForward:
    case FramePattern::kGrowing:
      return played % frames_;
    case FramePattern::kReverse:
      return frames_ - 1 - played % frames_;
    case FramePattern::kPingPong: {
      if (frames_ == 1) return 0;
      const std::uint64_t turn = played % (2 * (frames_ - 1));
      return turn < frames_ ? turn : 2 * (frames_ - 1) - turn;
    }
    case FramePattern::kScrub:
      return NextScrubbed();
  }
  return 0;
}

}  // namespace reel::bench
