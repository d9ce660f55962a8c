// Certificates: who somebody is on the wire, and what they may do there.
//
// A certificate of ReelFS names its holder (the subject's common name) and one role (a URI among
// the subject's alternative names: reelfs:role/mdc, …/client, …/admin or …/monitor).
// Nothing else of it is looked at but what TLS itself checks: the authority, the dates, and for a
// metadata controller the host names and addresses.
//
// Texts are untrusted: an error, never an abort. The only files that know OpenSSL are this one's,
// tls.cc, revocations.cc, tls_probe.cc and those of tools/pki/pki*. Threads: pure functions.
#pragma once

#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace reel {

enum class TlsRole { kMdc, kClient, kAdmin, kMonitor };
inline constexpr std::string_view kRoleUri = "reelfs:role/";
// "mdc", "client", "admin", "monitor".
std::string_view RoleName(TlsRole role);
absl::StatusOr<TlsRole> ParseRole(std::string_view name);

struct TlsPeer {
  std::string name;
  TlsRole role = TlsRole::kClient;
  std::string serial{};  // in hexadecimal
  std::string issuer{};  // whose serial that is
};

struct OpensslDelete {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
  void operator()(X509_CRL* p) const { X509_CRL_free(p); }
  void operator()(BIGNUM* p) const { BN_free(p); }
};
template <typename T>
using OpensslPtr = std::unique_ptr<T, OpensslDelete>;

// All certificates of a PEM text; INVALID_ARGUMENT when there is none, or one is damaged.
absl::StatusOr<std::vector<OpensslPtr<X509>>> ParseCertificates(std::string_view pem);
// INVALID_ARGUMENT; a key that is encrypted is one, too.
absl::StatusOr<OpensslPtr<EVP_PKEY>> ParsePrivateKey(std::string_view pem);

// INVALID_ARGUMENT: no name, or no role (or several) that ReelFS knows.
absl::StatusOr<TlsPeer> PeerOf(const X509& certificate);
// Of the first certificate of a PEM text.
absl::StatusOr<TlsPeer> PeerOf(std::string_view pem);

// PERMISSION_DENIED: it has none of these roles. `purpose`: what takes one, for people.
absl::Status RequireRole(const TlsPeer& peer, std::span<const TlsRole> roles,
                         std::string_view purpose);

// A certificate's number among those of its issuer, in hexadecimal.
std::string SerialText(const ASN1_INTEGER& serial);
// "CN=ReelFS authority 3f2a11c0".
std::string NameText(const X509_NAME& name);

// The host names and addresses that it is for: "mdc1, 10.0.0.1"; "none".
std::string HostsOf(const X509& certificate);
// Whether who dials one of these believes it: those of clients, but for such with hosts, do not
// serve.
bool MayServe(X509& certificate);

// Why OpenSSL refused what it was asked last; empties its list of errors.
std::string OpensslError();

}  // namespace reel
