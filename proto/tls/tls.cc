#include "proto/tls/tls.h"

#include <ctime>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/tls/tls_file.h"

namespace reel {
namespace {

std::int64_t SecondsOf(const ASN1_TIME* time) {
  tm fields{};
  return ASN1_TIME_to_tm(time, &fields) == 1 ? timegm(&fields) : 0;
}

std::string DateOf(const ASN1_TIME* time) {
  tm fields{};
  char text[32] = "an unknown date";
  if (ASN1_TIME_to_tm(time, &fields) == 1) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &fields);
  }
  return text;
}

absl::Status CheckDates(const TlsFile& file, const X509& certificate) {
  const ASN1_TIME* begin = X509_get0_notBefore(&certificate);
  const ASN1_TIME* end = X509_get0_notAfter(&certificate);
  if (X509_cmp_current_time(begin) > 0) {
    return file.Wrong(absl::StrCat("is not valid before ", DateOf(begin), "; is the clock right?"));
  }
  if (X509_cmp_current_time(end) < 0) {
    return file.Wrong(
        absl::StrCat("has expired on ", DateOf(end), "; renew it (reeladm pki renew)"));
  }
  return absl::OkStatus();
}

absl::Status CheckIssuer(const TlsFile& cert, const TlsFile& ca,
                         const std::vector<OpensslPtr<X509>>& own,
                         const std::vector<OpensslPtr<X509>>& authorities, TlsRole role) {
  const OpensslPtr<X509_STORE> store(X509_STORE_new());
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  STACK_OF(X509)* between = sk_X509_new_null();
  const absl::Cleanup freeing = [between] { sk_X509_free(between); };
  for (std::size_t i = 1; i < own.size(); ++i) sk_X509_push(between, own[i].get());
  const OpensslPtr<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), own.front().get(), between);
  X509_STORE_CTX_set_purpose(
      context.get(), role == TlsRole::kMdc ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  (void)OpensslError();
  if (error == X509_V_ERR_CERT_HAS_EXPIRED) {
    return ca.Wrong("has expired: a new authority and new certificates are needed");
  }
  return cert.Wrong(absl::StrCat("is not accepted by ", ca.text(), " (",
                                 X509_verify_cert_error_string(error),
                                 "): are both of the same authority?"));
}

absl::Status CheckRole(const TlsFile& file, const TlsPeer& peer, TlsRole role) {
  if (peer.role == role) return absl::OkStatus();
  return file.Wrong(absl::StrCat("has the role ", std::string(RoleName(peer.role)),
                                 "; the role needed here is ", std::string(RoleName(role)),
                                 " (reeladm pki issue --role ", std::string(RoleName(role)), ")"));
}

}  // namespace

absl::StatusOr<std::optional<TlsMaterial>> LoadTls(const TlsFiles& files, TlsRole role) {
  if (!files.any()) return std::optional<TlsMaterial>();
  const TlsFile ca{"tls_ca", files.ca}, cert{"tls_cert", files.cert}, key{"tls_key", files.key};
  for (const TlsFile* file : {&ca, &cert, &key}) {
    if (file->path.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file->key, " is missing: TLS takes tls_ca, tls_cert and tls_key"));
    }
  }
  auto ca_pem = ca.Read(/*secret=*/false);
  if (!ca_pem.ok()) return ca_pem.status();
  auto cert_pem = cert.Read(/*secret=*/false);
  if (!cert_pem.ok()) return cert_pem.status();
  auto key_pem = key.Read(/*secret=*/true);
  if (!key_pem.ok()) return key_pem.status();

  const auto authorities = ParseCertificates(*ca_pem);
  if (!authorities.ok()) return ca.Wrong(std::string(authorities.status().message()));
  const auto own = ParseCertificates(*cert_pem);
  if (!own.ok()) return cert.Wrong(std::string(own.status().message()));
  const auto secret = ParsePrivateKey(*key_pem);
  if (!secret.ok()) return key.Wrong(std::string(secret.status().message()));
  if (X509_check_private_key(own->front().get(), secret->get()) != 1) {
    (void)OpensslError();
    return key.Wrong(absl::StrCat("does not fit ", cert.text(), ": it is of another certificate"));
  }
  auto self = PeerOf(*own->front());
  if (!self.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(cert.text(), ": ", self.status().message()));
  }
  if (absl::Status s = CheckRole(cert, *self, role); !s.ok()) return s;
  if (absl::Status s = CheckDates(cert, *own->front()); !s.ok()) return s;
  if (absl::Status s = CheckIssuer(cert, ca, *own, *authorities, role); !s.ok()) return s;
  return std::optional<TlsMaterial>(TlsMaterial{*std::move(ca_pem), *std::move(cert_pem),
                                                *std::move(key_pem), *std::move(self),
                                                DateOf(X509_get0_notAfter(own->front().get())),
                                                SecondsOf(X509_get0_notAfter(own->front().get()))});
}

}  // namespace reel
