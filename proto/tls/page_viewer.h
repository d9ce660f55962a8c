// Who sees the pages that a program serves: metrics. Threads: pure functions.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "proto/tls/certificate.h"
#include "proto/tls/revocations.h"

namespace reel {

// `peer`: by its certificate. PERMISSION_DENIED: none was shown, or one that has neither the role
// monitor nor admin, or one that is revoked.
absl::Status CheckViewer(const std::optional<TlsPeer>& peer, const Revocations& revoked);

}  // namespace reel
