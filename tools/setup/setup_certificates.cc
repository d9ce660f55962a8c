#include "tools/setup/setup_certificates.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/tls/tls.h"
#include "tools/lib/text_file.h"
#include "tools/setup/setup_files.h"

namespace reel::tools {
namespace {

using FileState = SetupOutcome::File::State;

std::string AuthorityDirectory(const SetupRequest& request) {
  return request.directory + "/pki";
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

// What is wrong with a certificate that is there: OK, it holds for what the plan wants of it.
absl::Status CheckIssued(const PkiRequest& request, const std::string& ca) {
  const TlsFiles files{.ca = ca, .cert = request.path + ".crt", .key = request.path + ".key"};
  const auto loaded = LoadTls(files, request.role);
  if (!loaded.ok()) return loaded.status();
  const auto certificates = ParseCertificates((*loaded)->cert_pem);
  if (!certificates.ok()) return certificates.status();
  const std::string hosts = reel::HostsOf(*certificates->front());
  const std::string wanted = request.hosts.empty() ? "none" : absl::StrJoin(request.hosts, ", ");
  if (hosts == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(files.cert, " is for ", hosts, ", and not for ", wanted));
}

PkiRequest RequestFor(const SetupRequest& request, const SetupHost& host, TlsRole role) {
  PkiRequest wanted{.role = role, .name = host.name, .hosts = {}, .days = request.days, .path = {}};
  wanted.path = absl::StrCat(request.directory, "/", CertificatePath(host.name, role));
  if (role == TlsRole::kMdc) {
    wanted.hosts = host.controller->names;
    wanted.hosts.insert(wanted.hosts.begin(), host.name);
  }
  return wanted;
}

// A copy of what the authority has for all hosts, for one of them: `name` is ca.crt or ca.crl.
absl::Status GiveCopy(const SetupRequest& request, const std::string& host, const std::string& name,
                      const std::string& pem, SetupOutcome& outcome) {
  const std::string path = absl::StrCat(HostDirectory(host), "/tls/", name);
  const std::string full = absl::StrCat(request.directory, "/", path);
  const auto there = ReadTextFile(full);
  const bool same = there.ok() && *there == pem;
  outcome.files.push_back({path, same         ? FileState::kUnchanged
                                 : there.ok() ? FileState::kChanged
                                              : FileState::kNew});
  return same ? absl::OkStatus() : WriteTextFile(full, pem, 0644);
}

}  // namespace

absl::StatusOr<std::vector<PlannedCertificate>> PlanCertificates(const SetupRequest& request) {
  const std::string ca = AuthorityDirectory(request) + "/ca.crt";
  const bool has_authority = IsThere(ca) && IsThere(AuthorityDirectory(request) + "/ca.key");
  std::vector<PlannedCertificate> planned;
  for (const SetupHost& host : HostsOf(request.plan)) {
    const bool renewed =
        std::find(request.renew.begin(), request.renew.end(), host.name) != request.renew.end();
    for (const TlsRole role : host.roles) {
      PlannedCertificate certificate{.request = RequestFor(request, host, role)};
      const std::string& path = certificate.request.path;
      certificate.exists = IsThere(path + ".crt") || IsThere(path + ".key");
      if (certificate.exists && !has_authority) {
        return absl::FailedPreconditionError(
            absl::StrCat(AuthorityDirectory(request), " lacks ca.crt or ca.key, which ", path,
                         ".crt is of; put them back: a new authority would shut all hosts out"));
      }
      certificate.due = !certificate.exists || renewed;
      if (!certificate.due) {
        const absl::Status status = CheckIssued(certificate.request, ca);
        if (!status.ok() && !request.force) {
          return absl::FailedPreconditionError(
              absl::StrCat(status.message(),
                           "; nothing was written. To issue another, add --renew ", host.name));
        }
        certificate.due = !status.ok();
      }
      planned.push_back(std::move(certificate));
    }
  }
  return planned;
}

absl::Status IssueCertificates(const SetupRequest& request,
                               const std::vector<PlannedCertificate>& certificates,
                               SetupOutcome& outcome) {
  const std::string authority = AuthorityDirectory(request);
  const bool first = !IsThere(authority + "/ca.crt");
  if (first) {
    if (auto made = InitPki(authority, kAuthorityDays); !made.ok()) return made.status();
  }
  outcome.files.push_back({"pki/ca.crt", first ? FileState::kNew : FileState::kUnchanged});
  for (const PlannedCertificate& certificate : certificates) {
    const std::string& path = certificate.request.path;
    outcome.files.push_back({path.substr(request.directory.size() + 1) + ".crt",
                             !certificate.due     ? FileState::kUnchanged
                             : certificate.exists ? FileState::kChanged
                                                  : FileState::kNew});
    if (!certificate.due) continue;
    // (It is never overwritten.)
    for (const char* ending : {".crt", ".key"}) unlink((path + ending).c_str());
    if (auto made = IssueCertificate(authority, certificate.request); !made.ok()) {
      return made.status();
    }
  }
  const auto pem = ReadTextFile(authority + "/ca.crt");
  if (!pem.ok()) return pem.status();
  const auto list = ReadTextFile(authority + "/ca.crl");
  if (!list.ok() && !absl::IsNotFound(list.status())) return list.status();
  for (const SetupHost& host : HostsOf(request.plan)) {
    if (absl::Status s = GiveCopy(request, host.name, "ca.crt", *pem, outcome); !s.ok()) return s;
    if (!list.ok()) continue;  // nobody is revoked
    if (absl::Status s = GiveCopy(request, host.name, "ca.crl", *list, outcome); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace reel::tools
