#include "mdc/space/space_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

// Less than so many hundredths are free; with `above`, and a fifth of that more.
bool IsBelow(std::uint64_t free, std::uint64_t total, std::uint32_t limit, bool above) {
  const auto wide = static_cast<unsigned __int128>(free) * 500;
  return wide < static_cast<unsigned __int128>(total) * limit * (above ? 6 : 5);
}

}  // namespace

bool SpaceWatch::IsDue(std::uint64_t now_ms) {
  if (now_ms < next_look_ms_) return false;
  next_look_ms_ = now_ms + kLookMs;
  return true;
}

std::optional<std::string> SpaceWatch::Look(const std::string& name, std::uint64_t free_bytes,
                                            std::uint64_t total_bytes, const SpaceLimits& limits) {
  Space& space = spaces_[name];
  const Level before = space.level;
  if (IsBelow(free_bytes, total_bytes, limits.critical, before == Level::kCritical)) {
    space.level = Level::kCritical;
  } else if (IsBelow(free_bytes, total_bytes, limits.low, before != Level::kAmple)) {
    space.level = Level::kLow;
  } else {
    space.level = Level::kAmple;
  }
  const std::uint64_t percent = total_bytes == 0 ? 0 : free_bytes * 100 / total_bytes;
  space.text =
      absl::StrCat(name, space.level == Level::kCritical ? " is nearly used up: " : " runs low: ",
                   FormatSize(free_bytes), " (", percent, " %) of ", FormatSize(total_bytes),
                   " are free; remove files or add LUNs (\"reeladm free\" says more)");
  if (space.level == before) return std::nullopt;
  if (space.level == Level::kAmple) {
    return absl::StrCat(name, " is ample again: ", FormatSize(free_bytes), " of ",
                        FormatSize(total_bytes), " are free");
  }
  return space.text;
}

std::vector<std::string> SpaceWatch::Alarms() const {
  std::vector<std::string> alarms;
  for (const auto& [name, space] : spaces_) {
    if (space.level != Level::kAmple) alarms.push_back(space.text);
  }
  return alarms;
}

}  // namespace reel::mdc
