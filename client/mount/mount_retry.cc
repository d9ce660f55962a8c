#include "client/mount/mount_retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

// After 250 ms, then twice that each time. At most the second: what is waited for then takes
// minutes, and a hundred workstations that ask that often are no load.
constexpr std::uint32_t kFirstPauseMs = 250;
constexpr std::uint32_t kLongestPauseMs = 4'000;

}  // namespace

Awaited AwaitedFor(const absl::Status& opening_luns) {
  const bool missing = absl::IsNotFound(opening_luns) || absl::IsUnavailable(opening_luns) ||
                       absl::IsDeadlineExceeded(opening_luns);
  return missing ? Awaited::kLuns : Awaited::kNothing;
}

std::optional<std::uint32_t> MountRetry::Pause(std::uint64_t now_ms) {
  const std::uint64_t waited_ms = now_ms - began_ms_;
  if (waited_ms >= limit_ms_) return std::nullopt;
  const std::uint32_t pause_ms = std::min(kFirstPauseMs << std::min(tries_, 10U), kLongestPauseMs);
  ++tries_;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pause_ms, limit_ms_ - waited_ms));
}

bool MountRetry::IsNews(Awaited awaited, const std::string& why) {
  // (What follows the LUN is how many candidates there are by now.)
  const std::string what =
      awaited == Awaited::kController ? "a controller" : why.substr(0, why.find(';'));
  return said_.insert(what).second;
}

std::string MountRetry::Limit() const {
  return limit_ms_ == kNoLimit ? "" : absl::StrCat(" for ", limit_ms_ / 60'000, " min");
}

}  // namespace reel::client
