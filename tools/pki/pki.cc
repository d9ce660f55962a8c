#include "tools/pki/pki.h"

#include <arpa/inet.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tools/pki/pki_authority.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxNameBytes = 64;
constexpr std::size_t kMaxHosts = 64;
constexpr std::size_t kMaxHostBytes = 253;

bool Made(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [extra](unsigned char c) {
    return (std::isalnum(c) != 0 && c < 0x80) || extra.find(static_cast<char>(c)) != extra.npos;
  });
}

absl::Status CheckRequest(const PkiRequest& request) {
  if (request.name.empty() || request.name.size() > kMaxNameBytes || !Made(request.name, "._-") ||
      request.name.front() == '.' || request.name == "ca") {
    return absl::InvalidArgumentError(
        absl::StrCat("the name \"", absl::CHexEscape(request.name),
                     "\" is not 1 to 64 letters, digits, '.', '_' and '-' (and \"ca\" is the "
                     "authority's)"));
  }
  if (request.role == TlsRole::kMdc && request.hosts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.name,
                     ": a metadata controller's certificate needs --host NAME or ADDRESS, by "
                     "which clients dial it"));
  }
  if (request.hosts.size() > kMaxHosts) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.hosts.size(), " hosts; at most ", kMaxHosts, " are possible"));
  }
  for (const std::string& host : request.hosts) {
    if (host.empty() || host.size() > kMaxHostBytes || !Made(host, ".:-")) {
      return absl::InvalidArgumentError(
          absl::StrCat("--host \"", absl::CHexEscape(host), "\" is no host name and no address"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AlternativeNames(const PkiRequest& request) {
  std::string names =
      absl::StrCat("URI:", std::string(kRoleUri), std::string(RoleName(request.role)));
  for (const std::string& host : request.hosts) {
    std::array<unsigned char, 16> bytes{};
    const bool address = inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
                         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
    if (!address && host.find(':') != host.npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--host \"", host, "\" is no address; a port is not wanted"));
    }
    absl::StrAppend(&names, address ? ",IP:" : ",DNS:", host);
  }
  return names;
}

}  // namespace

absl::StatusOr<PkiFiles> InitPki(const std::string& directory, std::uint32_t days) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(
        absl::StrCat("cannot make ", directory, ": ", std::strerror(errno)));
  }
  std::array<unsigned char, 4> mark{};
  RAND_bytes(mark.data(), mark.size());
  const std::string name = absl::StrCat(
      "ReelFS authority ", absl::BytesToHexString({reinterpret_cast<char*>(mark.data()), 4}));
  const OpensslPtr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (key == nullptr) return CryptoError("make a key");
  auto certificate = MakeCertificate(name, key.get(), nullptr, key.get(), days,
                                     {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                      {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                      {NID_subject_key_identifier, "hash"}});
  if (!certificate.ok()) return certificate.status();
  return SaveIssued(directory + "/ca", certificate->get(), key.get());
}

absl::StatusOr<PkiFiles> IssueCertificate(const std::string& directory, const PkiRequest& request) {
  if (absl::Status s = CheckRequest(request); !s.ok()) return s;
  auto names = AlternativeNames(request);
  if (!names.ok()) return names.status();
  const auto authority = LoadAuthority(directory);
  if (!authority.ok()) return authority.status();
  const OpensslPtr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (key == nullptr) return CryptoError("make a key");
  // A controller dials others, too. A client that is named by a host may serve pages; that it is no
  // controller its role says.
  const bool serves =
      request.role == TlsRole::kMdc || (request.role == TlsRole::kClient && !request.hosts.empty());
  const char* const usage = serves ? "serverAuth,clientAuth" : "clientAuth";
  auto certificate = MakeCertificate(request.name, key.get(), authority->certificate.get(),
                                     authority->key.get(), request.days,
                                     {{NID_basic_constraints, "critical,CA:FALSE"},
                                      {NID_key_usage, "critical,digitalSignature"},
                                      {NID_ext_key_usage, usage},
                                      {NID_subject_alt_name, *names},
                                      {NID_subject_key_identifier, "hash"},
                                      {NID_authority_key_identifier, "keyid:always"}});
  if (!certificate.ok()) return certificate.status();
  if (absl::Status s = NoteIssued(directory, **certificate); !s.ok()) return s;
  auto saved =
      SaveIssued(request.path.empty() ? absl::StrCat(directory, "/", request.name) : request.path,
                 certificate->get(), key.get());
  if (!saved.ok()) ForgetIssued(directory, **certificate);
  return saved;
}

}  // namespace reel::tools
