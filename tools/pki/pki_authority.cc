#include "tools/pki/pki_authority.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/lib/text_file.h"

namespace reel::tools {
namespace {

constexpr long kSecondsPerDay = 86'400;
// Clocks of a LAN differ: a certificate made a moment ago holds everywhere.
constexpr long kClockSkewSeconds = 300;

absl::Status SystemError(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message =
      absl::StrCat(std::string(what), " ", path, ": ", std::strerror(error));
  return error == ENOENT   ? absl::NotFoundError(message)
         : error == EEXIST ? absl::AlreadyExistsError(message)
                           : absl::UnavailableError(message);
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

std::string IssuedFile(const std::string& directory, const X509& certificate) {
  return absl::StrCat(IssuedDirectory(directory), "/",
                      SerialText(*X509_get0_serialNumber(&certificate)), ".crt");
}

bool SetDates(X509* certificate, std::uint32_t days) {
  return X509_gmtime_adj(X509_getm_notBefore(certificate), -kClockSkewSeconds) != nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(certificate),
                         static_cast<long>(days) * kSecondsPerDay) != nullptr;
}

}  // namespace

absl::Status CryptoError(std::string_view what) {
  return absl::InternalError(absl::StrCat("cannot ", std::string(what), ": ", OpensslError()));
}

absl::StatusOr<OpensslPtr<X509>> MakeCertificate(
    const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, std::uint32_t days,
    const std::vector<CertificateExtension>& extensions) {
  OpensslPtr<X509> certificate(X509_new());
  X509* const made = certificate.get();
  const auto* text = reinterpret_cast<const unsigned char*>(name.c_str());
  X509_NAME* const subject = X509_get_subject_name(made);
  bool good =
      X509_set_version(made, X509_VERSION_3) == 1 && SetSerial(made) &&
      X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC, text, -1, -1, 0) == 1;
  good = good && X509_set_issuer_name(
                     made, issuer != nullptr ? X509_get_subject_name(issuer) : subject) == 1;
  good = good && SetDates(made, days) && X509_set_pubkey(made, key) == 1;
  for (const CertificateExtension& extension : extensions) {
    good = good &&
           AddExtension(made, issuer != nullptr ? issuer : made, extension.nid, extension.value);
  }
  good = good && X509_sign(made, issuer_key, EVP_sha256()) > 0;
  if (!good) return CryptoError(absl::StrCat("make the certificate of ", name));
  return certificate;
}

absl::StatusOr<OpensslPtr<X509>> MakeRenewed(const X509& old, const Authority& authority,
                                             std::uint32_t days) {
  OpensslPtr<X509> certificate(X509_new());
  X509* const made = certificate.get();
  bool good = X509_set_version(made, X509_VERSION_3) == 1 && SetSerial(made) &&
              X509_set_subject_name(made, X509_get_subject_name(&old)) == 1 &&
              X509_set_issuer_name(made, X509_get_issuer_name(&old)) == 1 && SetDates(made, days) &&
              X509_set_pubkey(made, X509_get0_pubkey(&old)) == 1;
  for (int i = 0; good && i < X509_get_ext_count(&old); ++i) {
    good = X509_add_ext(made, X509_get_ext(&old, i), -1) == 1;
  }
  good = good && X509_sign(made, authority.key.get(), EVP_sha256()) > 0;
  if (!good) return CryptoError("renew a certificate");
  return certificate;
}

absl::StatusOr<PkiFiles> SaveIssued(const std::string& path, X509* certificate, EVP_PKEY* key) {
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

std::string IssuedDirectory(const std::string& directory) {
  return absl::StrCat(directory, "/issued");
}

absl::Status NoteIssued(const std::string& directory, const X509& certificate) {
  const std::string issued = IssuedDirectory(directory);
  if (mkdir(issued.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("cannot make", issued);
  }
  return WriteNew(IssuedFile(directory, certificate), CertificatePem(certificate), 0644);
}

void ForgetIssued(const std::string& directory, const X509& certificate) {
  unlink(IssuedFile(directory, certificate).c_str());
}

std::string CertificatePem(const X509& certificate) {
  return Pem([&](BIO* to) { return PEM_write_bio_X509(to, &certificate); });
}

std::string ListPem(const X509_CRL& list) {
  return Pem([&](BIO* to) { return PEM_write_bio_X509_CRL(to, &list); });
}

absl::StatusOr<OpensslPtr<X509>> LoadAuthorityCertificate(const std::string& directory) {
  const std::string path = directory + "/ca.crt";
  const auto pem = ReadTextFile(path);
  if (absl::IsNotFound(pem.status())) {
    return absl::NotFoundError(absl::StrCat("no authority in ", directory, ": reeladm pki init ",
                                            directory, " makes one"));
  }
  if (!pem.ok()) return pem.status();
  auto certificates = ParseCertificates(*pem);
  if (!certificates.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " ", certificates.status().message()));
  }
  return std::move(certificates->front());
}

absl::StatusOr<Authority> LoadAuthority(const std::string& directory) {
  auto certificate = LoadAuthorityCertificate(directory);
  if (!certificate.ok()) return certificate.status();
  const std::string key_path = directory + "/ca.key";
  const auto pem = ReadTextFile(key_path);
  if (!pem.ok()) return pem.status();
  auto key = ParsePrivateKey(*pem);
  if (!key.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(key_path, " ", key.status().message()));
  }
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    (void)OpensslError();
    return absl::InvalidArgumentError(
        absl::StrCat(key_path, " does not fit ", directory, "/ca.crt"));
  }
  return Authority{*std::move(certificate), *std::move(key)};
}

}  // namespace reel::tools
