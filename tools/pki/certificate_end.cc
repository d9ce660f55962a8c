#include "tools/pki/certificate_end.h"

#include <openssl/asn1.h>
#include <openssl/x509.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/tls/certificate.h"

namespace reel::tools {
namespace {

constexpr std::int64_t kSecondsADay = 86'400;

CertificateEnd EndOf(const X509& certificate) {
  const ASN1_TIME* end = X509_get0_notAfter(&certificate);
  CertificateEnd found;
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, end) == 1) {
    found.seconds_left = days * kSecondsADay + seconds;
  }
  tm fields{};
  char text[16] = "?";
  if (ASN1_TIME_to_tm(end, &fields) == 1) std::strftime(text, sizeof(text), "%Y-%m-%d", &fields);
  found.date = text;
  if (auto peer = PeerOf(certificate); peer.ok()) found.holder = peer->name;
  return found;
}

}  // namespace

absl::StatusOr<CertificateEnd> ReadCertificateEnd(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  const std::string pem((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto certificates = ParseCertificates(pem);
  if (!certificates.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " ", certificates.status().message()));
  }
  std::optional<CertificateEnd> first;
  for (const auto& certificate : *certificates) {
    CertificateEnd end = EndOf(*certificate);
    if (!first || end.seconds_left < first->seconds_left) first = std::move(end);
  }
  return *std::move(first);
}

}  // namespace reel::tools
