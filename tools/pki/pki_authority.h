// What the parts of the certificate authority share: its key, and certificates as they are made and
// put on disk.
//
// Threads: one at a time per directory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/tls/certificate.h"
#include "tools/pki/pki.h"

namespace reel::tools {

struct Authority {
  OpensslPtr<X509> certificate;
  OpensslPtr<EVP_PKEY> key;
};
// Of DIR/ca.crt and DIR/ca.key. NOT_FOUND: there is none.
absl::StatusOr<Authority> LoadAuthority(const std::string& directory);

// Of DIR/ca.crt alone: its key may be kept elsewhere.
absl::StatusOr<OpensslPtr<X509>> LoadAuthorityCertificate(const std::string& directory);

struct CertificateExtension {
  int nid;
  std::string value;
};
// `issuer` null: signed by itself.
absl::StatusOr<OpensslPtr<X509>> MakeCertificate(
    const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, std::uint32_t days,
    const std::vector<CertificateExtension>& extensions);
// The same holder, key, role and hosts; another number and other dates.
absl::StatusOr<OpensslPtr<X509>> MakeRenewed(const X509& old, const Authority& authority,
                                             std::uint32_t days);

// PATH.crt and PATH.key, neither of which may be there: ALREADY_EXISTS.
absl::StatusOr<PkiFiles> SaveIssued(const std::string& path, X509* certificate, EVP_PKEY* key);
// A copy of what was issued, by its number: DIR/issued/SERIAL.crt. Without one it could neither be
// listed nor revoked, so it comes first.
absl::Status NoteIssued(const std::string& directory, const X509& certificate);
void ForgetIssued(const std::string& directory, const X509& certificate);
// Where such copies are.
std::string IssuedDirectory(const std::string& directory);

std::string CertificatePem(const X509& certificate);
std::string ListPem(const X509_CRL& list);
absl::Status CryptoError(std::string_view what);

}  // namespace reel::tools
