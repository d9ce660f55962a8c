#include "proto/tls/page_viewer.h"

#include <array>

namespace reel {

absl::Status CheckViewer(const std::optional<TlsPeer>& peer, const Revocations& revoked) {
  constexpr std::array kViewers{TlsRole::kMonitor, TlsRole::kAdmin};
  if (!peer) {
    return absl::PermissionDeniedError(
        "this page takes a certificate of this cluster, and none was shown");
  }
  if (absl::Status s = RequireRole(*peer, kViewers, "this page"); !s.ok()) return s;
  return revoked.Check(*peer);
}

}  // namespace reel
