// A mount that finds no controller, or not all LUNs of its volume, tries again: for how long, how
// often, and what of it is news to people.
//
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"

namespace reel::client {

// What a mount that failed may be tried again for.
enum class Awaited { kNothing, kController, kLuns };

// Of a failure to open the volume's LUNs: they come when the host is logged in, or the target is
// up.
Awaited AwaitedFor(const absl::Status& opening_luns);

class MountRetry {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  MountRetry(std::uint64_t limit_ms, std::uint64_t now_ms)
      : limit_ms_(limit_ms), began_ms_(now_ms) {}

  // How long to wait before the next try; nothing: give up.
  std::optional<std::uint32_t> Pause(std::uint64_t now_ms);

  // Whether people do not know yet that this is waited for. Of LUNs each missing one is news, once;
  // why a controller does not answer changes while its host starts, and is no news.
  bool IsNews(Awaited awaited, const std::string& why);

  // " for 2 min", for people; empty without one.
  std::string Limit() const;

 private:
  const std::uint64_t limit_ms_;
  const std::uint64_t began_ms_;
  std::uint32_t tries_ = 0;
  std::set<std::string> said_;
};

}  // namespace reel::client
