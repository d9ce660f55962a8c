// The certificates that their authorities have taken back: revocation lists (X.509 CRLs, in PEM
// form), which lie beside the authorities' own certificates: ca.crl beside ca.crt.
//
// A list counts by its authority's signature alone. Its date for the next one is not looked at: an
// old list still shuts out whom it names. Texts are untrusted. Threads: a value, safe to read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "proto/tls/certificate.h"

namespace reel {

class Revocations {
 public:
  // Nobody's.
  Revocations() = default;
  // INVALID_ARGUMENT: no list, one is damaged, or is signed by none of the authorities.
  static absl::StatusOr<Revocations> Parse(std::string_view pem, std::string_view authorities_pem);

  bool Contains(const TlsPeer& peer) const;
  std::size_t size() const { return revoked_.size(); }

 private:
  absl::flat_hash_set<std::string> revoked_;  // issuer and serial
};

// Where the lists of the authorities in `ca_file` lie: "…/ca.crl" for "…/ca.crt".
std::string RevocationsBeside(const std::string& ca_file);
// Of that file; nobody's where there is none. INVALID_ARGUMENT, PERMISSION_DENIED: names it.
absl::StatusOr<Revocations> ReadRevocations(const std::string& ca_file, std::string_view ca_pem);

}  // namespace reel
