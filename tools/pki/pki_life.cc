#include "tools/pki/pki_life.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tools/lib/text_file.h"
#include "tools/pki/pki_authority.h"
#include "tools/pki/pki_revoked.h"

namespace reel::tools {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;

struct Known {
  OpensslPtr<X509> certificate;
  IssuedCertificate about;
  std::int64_t begins = 0;
};

std::int64_t TimeOf(const ASN1_TIME* time) {
  tm fields{};
  return ASN1_TIME_to_tm(time, &fields) == 1 ? timegm(&fields) : 0;
}

std::string DateOf(const ASN1_TIME* time) {
  tm fields{};
  char text[16] = "?";
  if (ASN1_TIME_to_tm(time, &fields) == 1) std::strftime(text, sizeof(text), "%Y-%m-%d", &fields);
  return text;
}

Known Describe(OpensslPtr<X509> certificate) {
  Known known;
  const ASN1_TIME* begin = X509_get0_notBefore(certificate.get());
  const ASN1_TIME* end = X509_get0_notAfter(certificate.get());
  IssuedCertificate& about = known.about;
  if (const auto peer = PeerOf(*certificate); peer.ok()) {
    about.name = peer->name;
    about.role = std::string(RoleName(peer->role));
  } else {
    const std::string subject = NameText(*X509_get_subject_name(certificate.get()));
    about.name = std::string(absl::StripPrefix(subject, "CN="));
    about.role = "?";
  }
  about.serial = SerialText(*X509_get0_serialNumber(certificate.get()));
  about.hosts = HostsOf(*certificate);
  about.begins = DateOf(begin);
  about.ends = DateOf(end);
  about.seconds_left = TimeOf(end) - std::time(nullptr);
  known.begins = TimeOf(begin);
  known.certificate = std::move(certificate);
  return known;
}

// The files in a directory that may hold certificates; none where it is not there.
std::vector<std::string> CertificateFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".crt" && entry.path().filename() != "ca.crt") {
      files.push_back(entry.path().string());
    }
  }
  return files;
}

// Where holders' own files lie: the authority's directory, and the hosts' of a set.
std::vector<std::string> HoldersFiles(const std::string& directory) {
  std::vector<std::string> files = CertificateFiles(directory);
  const std::filesystem::path set = std::filesystem::path(directory) / "..";
  std::error_code error;
  if (!std::filesystem::exists(set / "setup.toml", error)) return files;
  for (const auto& host : std::filesystem::directory_iterator(set / "hosts", error)) {
    const auto more = CertificateFiles((host.path() / "tls").lexically_normal().string());
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

// By serial.
using Registry = std::map<std::string, Known>;

absl::Status AddFile(const std::string& file, const X509& authority, bool holders,
                     Registry& registry) {
  const auto pem = ReadTextFile(file);
  if (!pem.ok()) return pem.status();
  auto certificates = ParseCertificates(*pem);
  if (!certificates.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " ", certificates.status().message()));
  }
  OpensslPtr<X509>& first = certificates->front();
  if (X509_NAME_cmp(X509_get_issuer_name(first.get()), X509_get_subject_name(&authority)) != 0) {
    return absl::OkStatus();  // somebody else's
  }
  Known known = Describe(std::move(first));
  const auto at = registry.try_emplace(known.about.serial, std::move(known)).first;
  if (holders) at->second.about.file = file;
  return absl::OkStatus();
}

void MarkReplaced(Registry& registry) {
  const auto age = [](const Known& known) {
    return std::tuple(known.about.revoked.empty(), known.begins, known.about.seconds_left,
                      !known.about.file.empty());
  };
  std::map<std::pair<std::string, std::string>, const Known*> newest;
  for (const auto& [serial, known] : registry) {
    const Known*& last = newest[{known.about.name, known.about.role}];
    if (last == nullptr || age(*last) < age(known)) last = &known;
  }
  for (auto& [serial, known] : registry) {
    known.about.replaced = newest[{known.about.name, known.about.role}] != &known;
  }
}

absl::StatusOr<Registry> ReadRegistry(const std::string& directory, const X509& authority) {
  Registry registry;
  for (const std::string& file : CertificateFiles(IssuedDirectory(directory))) {
    if (absl::Status s = AddFile(file, authority, /*holders=*/false, registry); !s.ok()) return s;
  }
  for (const std::string& file : HoldersFiles(directory)) {
    if (absl::Status s = AddFile(file, authority, /*holders=*/true, registry); !s.ok()) return s;
  }
  const auto revoked = ReadRevoked(directory, authority);
  if (!revoked.ok()) return revoked.status();
  for (const auto& [serial, date] : *revoked) {
    const auto found = registry.find(serial);
    if (found != registry.end()) found->second.about.revoked = date;
  }
  MarkReplaced(registry);
  return registry;
}

absl::StatusOr<Renewed> Renew(const std::string& directory, const Known& old,
                              const Authority& authority, std::uint32_t days) {
  const auto certificate = MakeRenewed(*old.certificate, authority, days);
  if (!certificate.ok()) return certificate.status();
  if (absl::Status s = NoteIssued(directory, **certificate); !s.ok()) return s;
  Renewed renewed{.name = old.about.name,
                  .file = old.about.file,
                  .ends = DateOf(X509_get0_notAfter(certificate->get()))};
  if (renewed.file.empty()) renewed.file = absl::StrCat(directory, "/", old.about.name, ".crt");
  if (absl::Status s = WriteTextFile(renewed.file, CertificatePem(**certificate), 0644); !s.ok()) {
    return s;
  }
  return renewed;
}

}  // namespace

absl::StatusOr<std::vector<IssuedCertificate>> ListCertificates(const std::string& directory) {
  auto authority = LoadAuthorityCertificate(directory);
  if (!authority.ok()) return authority.status();
  const auto registry = ReadRegistry(directory, **authority);
  if (!registry.ok()) return registry.status();
  std::vector<const Known*> known;
  for (const auto& [serial, entry] : *registry) known.push_back(&entry);
  std::sort(known.begin(), known.end(), [](const Known* a, const Known* b) {
    return std::tie(a->about.name, a->about.role, a->begins, a->about.seconds_left) <
           std::tie(b->about.name, b->about.role, b->begins, b->about.seconds_left);
  });
  std::vector<IssuedCertificate> list = {Describe(*std::move(authority)).about};
  list.front().role = "authority";
  list.front().file = directory + "/ca.crt";
  for (const Known* entry : known) list.push_back(entry->about);
  return list;
}

absl::StatusOr<std::vector<Renewed>> RenewCertificates(const std::string& directory,
                                                       const std::vector<std::string>& names,
                                                       std::uint32_t within_days,
                                                       std::uint32_t days) {
  const auto authority = LoadAuthority(directory);
  if (!authority.ok()) return authority.status();
  const auto registry = ReadRegistry(directory, *authority->certificate);
  if (!registry.ok()) return registry.status();
  std::vector<const Known*> due;
  std::set<std::string> met;
  for (const auto& [serial, known] : *registry) {
    const bool named = std::find(names.begin(), names.end(), known.about.name) != names.end();
    if (named) met.insert(known.about.name);
    if (known.about.replaced || (!names.empty() && !named)) continue;
    if (!known.about.revoked.empty()) {
      if (!named) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "the certificate of ", known.about.name, " (", serial, ", ", known.about.role,
          ") is revoked, and its key with it; issue another: ", "reeladm pki issue ", directory,
          " --role ", known.about.role, " --name ", known.about.name));
    }
    if (named || known.about.seconds_left < within_days * kDaySeconds) due.push_back(&known);
  }
  for (const std::string& name : names) {
    if (met.contains(name)) continue;
    return absl::NotFoundError(absl::StrCat("nothing was issued to ", name, " by the authority in ",
                                            directory, ": reeladm pki list ", directory));
  }
  std::vector<Renewed> renewed;
  for (const Known* known : due) {
    auto one = Renew(directory, *known, *authority, days);
    if (!one.ok()) return one.status();
    renewed.push_back(*std::move(one));
  }
  std::sort(renewed.begin(), renewed.end(), [](const Renewed& a, const Renewed& b) {
    return std::tie(a.name, a.file) < std::tie(b.name, b.file);
  });
  return renewed;
}

absl::StatusOr<Revoked> RevokeCertificates(const std::string& directory, const std::string& name,
                                           const std::string& serial) {
  const auto authority = LoadAuthority(directory);
  if (!authority.ok()) return authority.status();
  const auto registry = ReadRegistry(directory, *authority->certificate);
  if (!registry.ok()) return registry.status();
  Revoked revoked;
  for (const auto& [number, known] : *registry) {
    const bool meant = known.about.name == name && (serial.empty() || serial == number);
    if (meant && known.about.revoked.empty()) revoked.serials.push_back(number);
  }
  if (revoked.serials.empty()) {
    return absl::NotFoundError(absl::StrCat("nothing that is not revoked was issued to ", name,
                                            serial.empty() ? "" : absl::StrCat(" as ", serial),
                                            " by the authority in ", directory,
                                            ": reeladm pki list ", directory));
  }
  auto list = AddToRevoked(directory, *authority, revoked.serials);
  if (!list.ok()) return list.status();
  revoked.list = *std::move(list);
  for (const std::string& number : revoked.serials) {
    const std::string& file = registry->at(number).about.file;
    if (file.empty()) continue;
    unlink(file.c_str());  // (A copy stays in DIR/issued.)
    unlink((file.substr(0, file.size() - 4) + ".key").c_str());
  }
  return revoked;
}

}  // namespace reel::tools
