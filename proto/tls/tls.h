// The three files by which a program takes part in mutual TLS, checked before they are used: every
// mistake that can be seen on this side is one line here, rather than a handshake that fails.
// Threads: pure functions; LoadTls reads files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/tls/certificate.h"

namespace reel {

struct TlsFiles {
  std::string ca;    // tls_ca: the certificates of the authorities that others are believed by
  std::string cert;  // tls_cert: one's own, and those between it and the authority
  std::string key;   // tls_key

  bool any() const { return !ca.empty() || !cert.empty() || !key.empty(); }
};

struct TlsMaterial {
  std::string ca_pem;
  std::string cert_pem;
  std::string key_pem;
  TlsPeer self;
  std::string until{};             // when one's own certificate ends
  std::int64_t until_seconds = 0;  // the same, since 1970
};

// Nothing when no file is named: no TLS. INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED: which
// file, what is wrong with it, what to do. Checked: all three are there and readable, the key is
// nobody else's to read and fits the certificate, the authority has issued it, today lies within
// its dates, it carries `role`.
absl::StatusOr<std::optional<TlsMaterial>> LoadTls(const TlsFiles& files, TlsRole role);

}  // namespace reel
