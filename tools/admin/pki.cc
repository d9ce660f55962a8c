#include "tools/admin/pki.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace reel::tools {
namespace {

constexpr long kSecondsPerDay = 86'400;
// Clocks of a LAN differ: a certificate made a moment ago holds everywhere.
constexpr long kClockSkewSeconds = 300;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::size_t kMaxHosts = 64;
constexpr std::size_t kMaxHostBytes = 253;

absl::Status SystemError(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message =
      absl::StrCat(std::string(what), " ", path, ": ", std::strerror(error));
  return error == ENOENT   ? absl::NotFoundError(message)
         : error == EEXIST ? absl::AlreadyExistsError(message)
                           : absl::UnavailableError(message);
}

absl::Status CryptoError(std::string_view what) {
  return absl::InternalError(absl::StrCat("cannot ", std::string(what), ": ", OpensslError()));
}

std::string FileIn(const std::string& directory, std::string_view name) {
  return absl::StrCat(directory, "/", std::string(name));
}

// A new file with the text, durable; what is there already stays as it is.
absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is never overwritten"));
  }
  if (fd < 0) return SystemError("cannot make", path);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fchmod(fd, mode) == 0 && fsync(fd) == 0;
  const absl::Status failure = written ? absl::OkStatus() : SystemError("cannot write", path);
  close(fd);
  if (!written) unlink(path.c_str());
  return failure;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return SystemError("cannot open", path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

template <typename Write>
std::string Pem(Write write) {
  const OpensslPtr<BIO> memory(BIO_new(BIO_s_mem()));
  if (write(memory.get()) != 1) return "";
  const char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

bool SetSerial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] = (bytes[0] & 0x7f) | 0x40;  // positive, and never shorter
  BIGNUM* number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
  const bool done = number != nullptr &&
                    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return done;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OpensslPtr<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

struct Extension {
  int nid;
  std::string value;
};

// `issuer` null: signed by itself.
absl::StatusOr<OpensslPtr<X509>> MakeCertificate(const std::string& name, EVP_PKEY* key,
                                                 X509* issuer, EVP_PKEY* issuer_key,
                                                 std::uint32_t days,
                                                 const std::vector<Extension>& extensions) {
  OpensslPtr<X509> certificate(X509_new());
  X509* const made = certificate.get();
  const auto* text = reinterpret_cast<const unsigned char*>(name.c_str());
  X509_NAME* const subject = X509_get_subject_name(made);
  bool good =
      X509_set_version(made, X509_VERSION_3) == 1 && SetSerial(made) &&
      X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC, text, -1, -1, 0) == 1;
  good = good && X509_set_issuer_name(
                     made, issuer != nullptr ? X509_get_subject_name(issuer) : subject) == 1;
  X509_gmtime_adj(X509_getm_notBefore(made), -kClockSkewSeconds);
  X509_gmtime_adj(X509_getm_notAfter(made), static_cast<long>(days) * kSecondsPerDay);
  good = good && X509_set_pubkey(made, key) == 1;
  for (const Extension& extension : extensions) {
    good = good &&
           AddExtension(made, issuer != nullptr ? issuer : made, extension.nid, extension.value);
  }
  good = good && X509_sign(made, issuer_key, EVP_sha256()) > 0;
  if (!good) return CryptoError(absl::StrCat("make the certificate of ", name));
  return certificate;
}

// `path`: without the endings.
absl::StatusOr<PkiFiles> Save(const std::string& path, X509* certificate, EVP_PKEY* key) {
  const PkiFiles files{path + ".crt", path + ".key"};
  const std::string key_pem = Pem([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  const std::string pem = Pem([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
  if (key_pem.empty() || pem.empty()) return CryptoError(absl::StrCat("write down ", path));
  if (absl::Status s = WriteNew(files.key, key_pem, 0600); !s.ok()) return s;
  if (absl::Status s = WriteNew(files.certificate, pem, 0644); !s.ok()) {
    unlink(files.key.c_str());  // made a moment ago, and of no use alone
    return s;
  }
  return files;
}

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

struct Authority {
  OpensslPtr<X509> certificate;
  OpensslPtr<EVP_PKEY> key;
};

absl::StatusOr<Authority> LoadAuthority(const std::string& directory) {
  const std::string path = FileIn(directory, "ca.crt");
  const std::string key_path = FileIn(directory, "ca.key");
  auto pem = ReadText(path);
  if (absl::IsNotFound(pem.status())) {
    return absl::NotFoundError(absl::StrCat("no authority in ", directory, ": reeladm pki init ",
                                            directory, " makes one"));
  }
  if (!pem.ok()) return pem.status();
  auto key_pem = ReadText(key_path);
  if (!key_pem.ok()) return key_pem.status();
  auto certificates = ParseCertificates(*pem);
  if (!certificates.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " ", certificates.status().message()));
  }
  auto key = ParsePrivateKey(*key_pem);
  if (!key.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(key_path, " ", key.status().message()));
  }
  if (X509_check_private_key(certificates->front().get(), key->get()) != 1) {
    (void)OpensslError();
    return absl::InvalidArgumentError(absl::StrCat(key_path, " does not fit ", path));
  }
  return Authority{std::move(certificates->front()), *std::move(key)};
}

}  // namespace

absl::StatusOr<PkiFiles> InitPki(const std::string& directory, std::uint32_t days) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("cannot make", directory);
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
  return Save(FileIn(directory, "ca"), certificate->get(), key.get());
}

absl::StatusOr<PkiFiles> IssueCertificate(const std::string& directory, const PkiRequest& request) {
  if (absl::Status s = CheckRequest(request); !s.ok()) return s;
  auto names = AlternativeNames(request);
  if (!names.ok()) return names.status();
  const auto authority = LoadAuthority(directory);
  if (!authority.ok()) return authority.status();
  const OpensslPtr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (key == nullptr) return CryptoError("make a key");
  // A controller dials others, too.
  const char* const usage = request.role == TlsRole::kMdc ? "serverAuth,clientAuth" : "clientAuth";
  auto certificate = MakeCertificate(request.name, key.get(), authority->certificate.get(),
                                     authority->key.get(), request.days,
                                     {{NID_basic_constraints, "critical,CA:FALSE"},
                                      {NID_key_usage, "critical,digitalSignature"},
                                      {NID_ext_key_usage, usage},
                                      {NID_subject_alt_name, *names},
                                      {NID_subject_key_identifier, "hash"},
                                      {NID_authority_key_identifier, "keyid:always"}});
  if (!certificate.ok()) return certificate.status();
  return Save(request.path.empty() ? FileIn(directory, request.name) : request.path,
              certificate->get(), key.get());
}

}  // namespace reel::tools
