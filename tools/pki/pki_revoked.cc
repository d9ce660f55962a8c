#include "tools/pki/pki_revoked.h"

#include <openssl/pem.h>

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/tls/revocations.h"
#include "tools/lib/text_file.h"

namespace reel::tools {
namespace {

std::string ListFile(const std::string& directory) {
  return RevocationsBeside(directory + "/ca.crt");
}

// Null: there is none.
absl::StatusOr<OpensslPtr<X509_CRL>> ReadList(const std::string& directory, const X509& authority) {
  const std::string path = ListFile(directory);
  const auto pem = ReadTextFile(path);
  if (absl::IsNotFound(pem.status())) return OpensslPtr<X509_CRL>();
  if (!pem.ok()) return pem.status();
  const auto checked = Revocations::Parse(*pem, CertificatePem(authority));
  if (!checked.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " ", checked.status().message(), "; put back the one that was given to ",
                     "the controllers, or those on it would be let in again"));
  }
  const OpensslPtr<BIO> reader(BIO_new_mem_buf(pem->data(), static_cast<int>(pem->size())));
  OpensslPtr<X509_CRL> list(PEM_read_bio_X509_CRL(reader.get(), nullptr, nullptr, nullptr));
  if (list == nullptr) return CryptoError(absl::StrCat("read ", path));
  return list;
}

bool Revoke(X509_CRL* list, const std::string& serial, const ASN1_TIME* now) {
  BIGNUM* number = nullptr;
  if (BN_hex2bn(&number, serial.c_str()) == 0) return false;
  const OpensslPtr<BIGNUM> owned(number);
  ASN1_INTEGER* const integer = BN_to_ASN1_INTEGER(number, nullptr);
  X509_REVOKED* const entry = X509_REVOKED_new();
  const bool good = integer != nullptr && entry != nullptr &&
                    X509_REVOKED_set_serialNumber(entry, integer) == 1 &&
                    X509_REVOKED_set_revocationDate(entry, const_cast<ASN1_TIME*>(now)) == 1 &&
                    X509_CRL_add0_revoked(list, entry) == 1;
  ASN1_INTEGER_free(integer);
  if (!good) X509_REVOKED_free(entry);
  return good;
}

// Counts the lists of an authority, as RFC 5280 wants it.
bool SetNumber(X509_CRL* list) {
  auto* number =
      static_cast<ASN1_INTEGER*>(X509_CRL_get_ext_d2i(list, NID_crl_number, nullptr, nullptr));
  const long last = number != nullptr ? ASN1_INTEGER_get(number) : 0;
  if (number == nullptr) number = ASN1_INTEGER_new();
  const bool good = number != nullptr && ASN1_INTEGER_set(number, last + 1) == 1 &&
                    X509_CRL_add1_ext_i2d(list, NID_crl_number, number, 0, X509V3_ADD_REPLACE) == 1;
  ASN1_INTEGER_free(number);
  return good;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ReadRevoked(const std::string& directory,
                                                               const X509& authority) {
  const auto list = ReadList(directory, authority);
  if (!list.ok()) return list.status();
  std::map<std::string, std::string> revoked;
  if (*list == nullptr) return revoked;
  STACK_OF(X509_REVOKED)* const entries = X509_CRL_get_REVOKED(list->get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    const X509_REVOKED* entry = sk_X509_REVOKED_value(entries, i);
    tm fields{};
    char date[16] = "?";
    if (ASN1_TIME_to_tm(X509_REVOKED_get0_revocationDate(entry), &fields) == 1) {
      std::strftime(date, sizeof(date), "%Y-%m-%d", &fields);
    }
    revoked[SerialText(*X509_REVOKED_get0_serialNumber(entry))] = date;
  }
  return revoked;
}

absl::StatusOr<std::string> AddToRevoked(const std::string& directory, const Authority& authority,
                                         const std::vector<std::string>& serials) {
  auto list = ReadList(directory, *authority.certificate);
  if (!list.ok()) return list.status();
  X509* const issuer = authority.certificate.get();
  if (*list == nullptr) list->reset(X509_CRL_new());
  X509_CRL* const made = list->get();
  ASN1_TIME* const now = X509_gmtime_adj(nullptr, 0);
  // Nobody has to make another one before the authority itself ends.
  bool good = now != nullptr && X509_CRL_set_version(made, X509_CRL_VERSION_2) == 1 &&
              X509_CRL_set_issuer_name(made, X509_get_subject_name(issuer)) == 1 &&
              X509_CRL_set1_lastUpdate(made, now) == 1 &&
              X509_CRL_set1_nextUpdate(made, X509_get0_notAfter(issuer)) == 1;
  for (const std::string& serial : serials) good = good && Revoke(made, serial, now);
  ASN1_TIME_free(now);
  good = good && SetNumber(made) && X509_CRL_sort(made) == 1 &&
         X509_CRL_sign(made, authority.key.get(), EVP_sha256()) > 0;
  if (!good) return CryptoError("make the revocation list");
  const std::string path = ListFile(directory);
  if (absl::Status s = WriteTextFile(path, ListPem(*made), 0644); !s.ok()) return s;
  return path;
}

}  // namespace reel::tools
