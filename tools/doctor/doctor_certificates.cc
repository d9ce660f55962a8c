#include "tools/doctor/doctor_certificates.h"

#include "absl/strings/str_cat.h"
#include "proto/tls/revocations.h"
#include "tools/pki/certificate_end.h"

namespace reel::tools {
namespace {

constexpr std::int64_t kSecondsOfADay = 86'400;
constexpr std::int64_t kSoonDays = 30;

Finding CertificateFinding(const std::string& path, const std::string& todo) {
  const auto end = ReadCertificateEnd(path);
  if (!end.ok()) {
    return Finding::Failure("certificate", path, std::string(end.status().message()), todo);
  }
  const std::int64_t days = end->seconds_left / kSecondsOfADay;
  const std::string of = end->holder.empty() ? "" : absl::StrCat("of ", end->holder, ", ");
  if (end->seconds_left < 0) {
    return Finding::Failure("certificate", path, absl::StrCat(of, "has expired on ", end->date),
                            todo);
  }
  const std::string text = absl::StrCat(of, "until ", end->date, " (", days, " days)");
  if (days >= kSoonDays) return Finding::Ok("certificate", path, text);
  return Finding::Warning("certificate", path, absl::StrCat(text, ": soon"), todo);
}

// On a controller, whose list counts.
Finding RevocationsFinding(const std::string& ca_file,
                           const absl::StatusOr<Revocations>& revocations) {
  const std::string path = RevocationsBeside(ca_file);
  if (!revocations.ok()) {
    return Finding::Failure("certificate", path, std::string(revocations.status().message()),
                            "copy ca.crl here again, from where its authority is");
  }
  return Finding::Ok("certificate", path,
                     absl::StrCat("names ", revocations->size(), " that are revoked"));
}

void AddOfProgram(const TlsFiles& files, TlsRole role, std::vector<Finding>& findings) {
  if (!files.any()) return;
  const std::string todo =
      "renew it: reeladm pki renew DIR NAME, where its authority is; copy it here, in place of "
      "this one (nothing has to be restarted)";
  Finding finding = CertificateFinding(files.cert, todo);
  const auto loaded = LoadTls(files, role);
  if (loaded.ok()) {
    const auto revocations = ReadRevocations(files.ca, (*loaded)->ca_pem);
    if (revocations.ok() && revocations->Contains((*loaded)->self)) {
      finding = Finding::Failure("certificate", files.cert,
                                 absl::StrCat("of ", (*loaded)->self.name, ", is revoked"),
                                 "issue another: reeladm pki issue, where its authority is");
    }
    if (role == TlsRole::kMdc) findings.push_back(RevocationsFinding(files.ca, revocations));
  }
  // What LoadTls finds wrong may be in the key, or in the authority.
  if (finding.level != Finding::Level::kFailure && !loaded.ok()) {
    finding =
        Finding::Failure("certificate", files.cert, std::string(loaded.status().message()), todo);
  }
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> CertificateFindings(const HostConfig& config) {
  std::vector<Finding> findings;
  std::string authority;
  const auto add = [&](const TlsFiles& files, TlsRole role) {
    AddOfProgram(files, role, findings);
    if (authority.empty()) authority = files.ca;
  };
  if (config.mdc) add(config.mdc->tls, TlsRole::kMdc);
  if (config.client) add(config.client->tls, TlsRole::kClient);
  if (config.admin) add(config.admin->tls, TlsRole::kAdmin);
  if (!authority.empty()) {
    findings.push_back(CertificateFinding(
        authority, "make another authority and all certificates anew: reeladm setup, elsewhere"));
  }
  return findings;
}

}  // namespace reel::tools
