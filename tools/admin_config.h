// Which MDC and volume reeladm talks to: arguments first, then the environment, then the file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel::tools {

inline constexpr char kAdminConfig[] = "/etc/reelfs/reeladm.toml";

struct AdminConfig {
  std::string mdc;     // "HOST:PORT"
  std::string volume;  // may be empty
};

// mdc = "HOST:PORT" and volume = "NAME", both optional. INVALID_ARGUMENT names the line.
absl::StatusOr<AdminConfig> ParseAdminConfig(std::string_view text, std::string_view source);

// Fills what `given` leaves empty: from REELADM_MDC and REELADM_VOLUME, from `path` (kAdminConfig
// where it is empty, which need not exist); the MDC of this host is the last resort.
absl::StatusOr<AdminConfig> CompleteAdminConfig(AdminConfig given, const std::string& path);

}  // namespace reel::tools
