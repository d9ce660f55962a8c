#include "proto/tls/revocations.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/tls/tls_file.h"

namespace reel {
namespace {

constexpr std::size_t kMaxLists = 1024;

std::string Entry(const std::string& issuer, const std::string& serial) {
  return absl::StrCat(serial, " ", issuer);
}

bool SignedBy(X509_CRL& list, X509& authority) {
  EVP_PKEY* const key = X509_get0_pubkey(&authority);
  const bool issued =
      X509_NAME_cmp(X509_CRL_get_issuer(&list), X509_get_subject_name(&authority)) == 0;
  return issued && key != nullptr && X509_CRL_verify(&list, key) == 1;
}

}  // namespace

absl::StatusOr<Revocations> Revocations::Parse(std::string_view pem,
                                               std::string_view authorities_pem) {
  const auto authorities = ParseCertificates(authorities_pem);
  if (!authorities.ok()) return authorities.status();
  ERR_clear_error();
  Revocations revocations;
  const OpensslPtr<BIO> reader(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::size_t lists = 0;
  for (; lists < kMaxLists; ++lists) {
    const OpensslPtr<X509_CRL> list(PEM_read_bio_X509_CRL(reader.get(), nullptr, nullptr, nullptr));
    if (list == nullptr) break;
    const std::string issuer = NameText(*X509_CRL_get_issuer(list.get()));
    const bool known =
        std::any_of(authorities->begin(), authorities->end(),
                    [&](const OpensslPtr<X509>& authority) { return SignedBy(*list, *authority); });
    if (!known) {
      (void)OpensslError();
      return absl::InvalidArgumentError(absl::StrCat(
          "holds a revocation list of ", issuer, ", signed by no authority that is believed here"));
    }
    STACK_OF(X509_REVOKED)* const entries = X509_CRL_get_REVOKED(list.get());
    for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
      const X509_REVOKED* entry = sk_X509_REVOKED_value(entries, i);
      revocations.revoked_.insert(
          Entry(issuer, SerialText(*X509_REVOKED_get0_serialNumber(entry))));
    }
  }
  const unsigned long error = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  const std::string why = OpensslError();
  if (!at_end) {
    return absl::InvalidArgumentError(absl::StrCat("holds a damaged revocation list (", why, ")"));
  }
  if (lists == 0) return absl::InvalidArgumentError("holds no revocation list in PEM form");
  return revocations;
}

bool Revocations::Contains(const TlsPeer& peer) const {
  return revoked_.contains(Entry(peer.issuer, peer.serial));
}

std::string RevocationsBeside(const std::string& ca_file) {
  constexpr std::string_view kEnding = ".crt";
  const bool usual = std::string_view(ca_file).ends_with(kEnding);
  return absl::StrCat(ca_file.substr(0, ca_file.size() - (usual ? kEnding.size() : 0)), ".crl");
}

absl::StatusOr<Revocations> ReadRevocations(const std::string& ca_file, std::string_view ca_pem) {
  const std::string path = RevocationsBeside(ca_file);
  const TlsFile file{"the revocation list", path};
  const auto pem = file.Read(/*secret=*/false);
  if (absl::IsNotFound(pem.status())) return Revocations();
  if (!pem.ok()) return pem.status();
  auto revocations = Revocations::Parse(*pem, ca_pem);
  if (!revocations.ok()) return file.Wrong(std::string(revocations.status().message()));
  return revocations;
}

}  // namespace reel
