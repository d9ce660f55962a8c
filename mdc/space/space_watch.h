// Says when free space runs out, before writers do: each of several spaces is ample, low or
// critical.
//
// A space becomes low or critical below a limit, and is so no longer a fifth above it, so that one
// at the limit is not told of again and again. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reel::mdc {

// In hundredths of a space; 0: never.
struct SpaceLimits {
  std::uint32_t low = 10;
  std::uint32_t critical = 5;
};

class SpaceWatch {
 public:
  // It is not looked at more often.
  static constexpr std::uint64_t kLookMs = 1'000;

  // Whether it is time to look; then not again before kLookMs have passed.
  bool IsDue(std::uint64_t now_ms);
  // `name`: for people, as the subject of a sentence. A line for the log where the space has become
  // low, critical, or ample again.
  std::optional<std::string> Look(const std::string& name, std::uint64_t free_bytes,
                                  std::uint64_t total_bytes, const SpaceLimits& limits);
  // Of all that are low or critical now, a line each.
  std::vector<std::string> Alarms() const;

 private:
  enum class Level : std::uint8_t { kAmple, kLow, kCritical };
  struct Space {
    Level level = Level::kAmple;
    std::string text;  // as of the last look
  };
  std::map<std::string, Space> spaces_;
  std::uint64_t next_look_ms_ = 0;
};

}  // namespace reel::mdc
