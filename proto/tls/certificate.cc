#include "proto/tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reel {
namespace {

constexpr std::size_t kMaxNameBytes = 64;  // X.509's own bound for a common name
constexpr std::size_t kMaxCertificates = 1024;

OpensslPtr<BIO> Reader(std::string_view text) {
  return OpensslPtr<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Nobody is asked for a passphrase.
int NoPassphrase(char*, int, int, void*) {
  return -1;
}

OpensslPtr<GENERAL_NAMES> AlternativeNames(const X509& certificate) {
  return OpensslPtr<GENERAL_NAMES>(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
}

std::string TextOf(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<std::size_t>(ASN1_STRING_length(text)));
}

std::string AddressOf(const ASN1_OCTET_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(bytes) != 16) return "?";
  inet_ntop(family, ASN1_STRING_get0_data(bytes), text, sizeof(text));
  return text;
}

absl::StatusOr<std::string> NameOf(const X509& certificate) {
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return absl::InvalidArgumentError("the certificate has no common name");
  std::string name = TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  const auto printable = [](char c) { return c >= ' ' && c < 0x7f; };
  if (name.empty() || name.size() > kMaxNameBytes ||
      !std::all_of(name.begin(), name.end(), printable)) {
    return absl::InvalidArgumentError(absl::StrCat("the certificate's name \"",
                                                   absl::CHexEscape(name.substr(0, kMaxNameBytes)),
                                                   "\" is not 1 to 64 printable characters"));
  }
  return name;
}

}  // namespace

std::string_view RoleName(TlsRole role) {
  switch (role) {
    case TlsRole::kMdc:
      return "mdc";
    case TlsRole::kClient:
      return "client";
    case TlsRole::kAdmin:
      return "admin";
    case TlsRole::kMonitor:
      return "monitor";
  }
  return "?";
}

absl::StatusOr<TlsRole> ParseRole(std::string_view name) {
  for (const TlsRole role : {TlsRole::kMdc, TlsRole::kClient, TlsRole::kAdmin, TlsRole::kMonitor}) {
    if (name == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(std::string(name)),
                   "\" is no role; it is mdc, client, admin or monitor"));
}

absl::Status RequireRole(const TlsPeer& peer, std::span<const TlsRole> roles,
                         std::string_view purpose) {
  if (std::ranges::find(roles, peer.role) != roles.end()) return absl::OkStatus();
  std::string wanted;
  for (const TlsRole role : roles)
    absl::StrAppend(&wanted, wanted.empty() ? "" : " or ", std::string(RoleName(role)));
  return absl::PermissionDeniedError(absl::StrCat(
      "the certificate of ", peer.name, " has the role ", std::string(RoleName(peer.role)), "; ",
      std::string(purpose), " takes one with the role ", wanted));
}

absl::StatusOr<std::vector<OpensslPtr<X509>>> ParseCertificates(std::string_view pem) {
  ERR_clear_error();
  std::vector<OpensslPtr<X509>> certificates;
  const OpensslPtr<BIO> reader = Reader(pem);
  while (certificates.size() < kMaxCertificates) {
    OpensslPtr<X509> next(PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  const unsigned long error = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  const std::string why = OpensslError();
  if (certificates.empty() && at_end) {
    return absl::InvalidArgumentError("holds no certificate in PEM form");
  }
  if (!at_end)
    return absl::InvalidArgumentError(absl::StrCat("holds a damaged certificate (", why, ")"));
  return certificates;
}

absl::StatusOr<OpensslPtr<EVP_PKEY>> ParsePrivateKey(std::string_view pem) {
  ERR_clear_error();
  OpensslPtr<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassphrase, nullptr));
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(
      absl::StrCat("holds no private key in PEM form that can be read without a passphrase (",
                   OpensslError(), ")"));
}

absl::StatusOr<TlsPeer> PeerOf(const X509& certificate) {
  auto name = NameOf(certificate);
  if (!name.ok()) return name.status();
  std::optional<TlsRole> role;
  const OpensslPtr<GENERAL_NAMES> names = AlternativeNames(certificate);
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* entry = sk_GENERAL_NAME_value(names.get(), i);
    if (entry->type != GEN_URI) continue;
    const std::string uri = TextOf(entry->d.uniformResourceIdentifier);
    if (!uri.starts_with(kRoleUri)) continue;
    const auto known = ParseRole(std::string_view(uri).substr(kRoleUri.size()));
    if (!known.ok() || role) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the certificate of ", *name,
          known.ok() ? " carries several roles" : " carries a role that is not known here"));
    }
    role = *known;
  }
  if (!role) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate of ", *name, " carries no role (a URI reelfs:role/…)"));
  }
  return TlsPeer{*std::move(name), *role, SerialText(*X509_get0_serialNumber(&certificate)),
                 NameText(*X509_get_issuer_name(&certificate))};
}

absl::StatusOr<TlsPeer> PeerOf(std::string_view pem) {
  const auto certificates = ParseCertificates(pem);
  if (!certificates.ok()) return certificates.status();
  return PeerOf(*certificates->front());
}

std::string SerialText(const ASN1_INTEGER& serial) {
  const OpensslPtr<BIGNUM> number(ASN1_INTEGER_to_BN(&serial, nullptr));
  char* const digits = number != nullptr ? BN_bn2hex(number.get()) : nullptr;
  std::string text = digits != nullptr ? absl::AsciiStrToLower(digits) : "";
  OPENSSL_free(digits);
  return text;
}

std::string NameText(const X509_NAME& name) {
  const OpensslPtr<BIO> memory(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(memory.get(), &name, 0, XN_FLAG_RFC2253);
  const char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

bool MayServe(X509& certificate) {
  return HostsOf(certificate) != "none" &&
         X509_check_purpose(&certificate, X509_PURPOSE_SSL_SERVER, /*ca=*/0) == 1;
}

std::string HostsOf(const X509& certificate) {
  std::vector<std::string> hosts;
  const OpensslPtr<GENERAL_NAMES> names = AlternativeNames(certificate);
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* entry = sk_GENERAL_NAME_value(names.get(), i);
    if (entry->type == GEN_DNS) hosts.push_back(absl::CHexEscape(TextOf(entry->d.dNSName)));
    if (entry->type == GEN_IPADD) hosts.push_back(AddressOf(entry->d.iPAddress));
  }
  return hosts.empty() ? "none" : absl::StrJoin(hosts, ", ");
}

std::string OpensslError() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(error);
  std::string text = reason != nullptr ? reason : error != 0 ? "unknown error" : "no more is known";
  ERR_clear_error();
  return text;
}

}  // namespace reel
