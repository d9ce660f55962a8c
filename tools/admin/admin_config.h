// Which MDC and volume reeladm talks to: arguments first, then the environment, then the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/tls/tls.h"

namespace reel::tools {

inline constexpr char kAdminConfig[] = "/etc/reelfs/reeladm.toml";

struct AdminConfig {
  std::string mdc;                  // as it was given: "HOST[:PORT][,HOST[:PORT]…]"
  std::vector<std::string> mdcs{};  // the same as HOST:PORT each, when completed
  std::string volume;               // may be empty
  TlsFiles tls;
};

// mdc = "HOST[:PORT][,…]", volume = "NAME", tls_ca, tls_cert and tls_key, all optional.
// INVALID_ARGUMENT names the line.
absl::StatusOr<AdminConfig> ParseAdminConfig(std::string_view text, std::string_view source);

// Fills what `given` leaves empty: from REELADM_MDC, REELADM_VOLUME and REELADM_TLS_CA, …_CERT and
// …_KEY, from `path` (kAdminConfig where it is empty, which need not exist), from the shared file
// beside it (volume/base/shared_config.h); the MDC of this host is the last resort.
absl::StatusOr<AdminConfig> CompleteAdminConfig(AdminConfig given, const std::string& path);

}  // namespace reel::tools
