// Which frame of a sequence is played next: forward, in reverse, back and forth, or as somebody
// drags the play head. The same for the same seed. Pure. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace reel::bench {

enum class FramePattern { kForward, kReverse, kPingPong, kScrub, kGrowing };
// INVALID_ARGUMENT lists what there is.
absl::StatusOr<FramePattern> ParseFramePattern(const std::string& text);
const char* NameOf(FramePattern pattern);

class FrameOrder {
 public:
  // Of a sequence of so many frames, which is played again when it has ended. REQUIRES: frames > 0.
  FrameOrder(FramePattern pattern, std::uint64_t frames, std::uint64_t seed);
  std::uint64_t Next();

 private:
  std::uint64_t Random(std::uint64_t below);
  std::uint64_t NextScrubbed();

  const FramePattern pattern_;
  const std::uint64_t frames_;
  std::uint64_t random_;
  std::uint64_t played_ = 0;
  // Scrubbing: where it is, how many frames this drag has left, and how it goes.
  std::uint64_t place_ = 0, left_ = 0, step_ = 1;
  bool backward_ = false;
};

}  // namespace reel::bench
