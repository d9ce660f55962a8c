#include "proto/tls/tls_probe.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace reel {
namespace {

struct SslDelete {
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// OpenSSL writes without MSG_NOSIGNAL: a peer that hangs up must not end the process.
class SigpipeBlock {
 public:
  SigpipeBlock() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;
  ~SigpipeBlock() {
    constexpr timespec kNow{};
    while (sigtimedwait(&set_, nullptr, &kNow) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

std::string HostOf(const std::string& address) {
  absl::string_view host = absl::string_view(address).substr(0, address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

absl::StatusOr<Socket> Connect(const std::string& address, std::uint32_t timeout_ms) {
  const std::string port = address.substr(address.rfind(':') + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(HostOf(address).c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("no such host: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  const timeval wait{timeout_ms / 1000, static_cast<suseconds_t>(timeout_ms % 1000 * 1000)};
  int last = ECONNREFUSED;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (socket.fd() < 0) continue;
    setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    if (connect(socket.fd(), at->ai_addr, at->ai_addrlen) == 0) return socket;
    last = errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  return absl::UnavailableError(
      absl::StrCat(std::strerror(last), "; does reel-mdcd run there, on this port?"));
}

bool Fill(SSL_CTX* context, const TlsMaterial& tls) {
  const auto authorities = ParseCertificates(tls.ca_pem);
  const auto own = ParseCertificates(tls.cert_pem);
  const auto key = ParsePrivateKey(tls.key_pem);
  if (!authorities.ok() || !own.ok() || !key.ok()) return false;
  for (const auto& authority : *authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
  }
  for (std::size_t i = 1; i < own->size(); ++i) SSL_CTX_add1_chain_cert(context, (*own)[i].get());
  return SSL_CTX_use_certificate(context, own->front().get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key->get()) == 1;
}

void ExpectHost(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* expected = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1) return;
  (void)OpensslError();
  X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size());
  SSL_set_tlsext_host_name(ssl, host.c_str());
}

absl::Status Wrong(std::string_view what) {
  return absl::FailedPreconditionError(absl::string_view(what.data(), what.size()));
}

// Whether the last call on `ssl` ended because nothing came in time. REQUIRES: errno is still its.
bool TimedOut(SSL* ssl, int outcome) {
  const int error_number = errno;
  const int error = SSL_get_error(ssl, outcome);
  return error == SSL_ERROR_WANT_READ || (error == SSL_ERROR_SYSCALL && error_number == EAGAIN);
}

// Keeps the names of a certificate that is refused: after the handshake it is not there any more.
int NoteHosts(int accepted, X509_STORE_CTX* chain) {
  if (accepted != 0) return accepted;
  auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const X509* certificate = X509_STORE_CTX_get_current_cert(chain);
  auto* hosts = static_cast<std::string*>(SSL_get_app_data(ssl));
  if (certificate != nullptr && hosts != nullptr) *hosts = HostsOf(*certificate);
  return accepted;
}

// What this side found wrong with the controller, whose certificate is for `others`.
absl::Status JudgeHandshake(SSL* ssl, const std::string& host, const std::string& others) {
  const long verified = SSL_get_verify_result(ssl);
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return Wrong(absl::StrCat("the controller's certificate is not for ", host, " but for ", others,
                              "; issue one with --host ", host));
  }
  if (verified != X509_V_OK) {
    return Wrong(absl::StrCat("the controller's certificate is not accepted (",
                              X509_verify_cert_error_string(verified),
                              "); is tls_ca that of its authority?"));
  }
  const unsigned long error = ERR_peek_last_error();
  if (error == 0 || ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER ||
      ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return Wrong("the controller does not speak TLS; it has no tls_ca, tls_cert and tls_key");
  }
  return Wrong(absl::StrCat("the TLS handshake failed: ", OpensslError()));
}

// What the controller finds wrong with this side shows after the handshake (TLS 1.3): it speaks
// first, or hangs up, with or without an alert.
absl::Status JudgeAnswer(SSL* ssl) {
  char byte = 0;
  const int count = SSL_read(ssl, &byte, 1);
  if (count == 1 || TimedOut(ssl, count)) return absl::OkStatus();
  return Wrong(absl::StrCat("the controller refuses this certificate (", OpensslError(),
                            "); is it of the controller's own authority?"));
}

}  // namespace

absl::Status ProbeMdc(const std::string& address, const TlsMaterial* tls,
                      std::uint32_t timeout_ms) {
  const SigpipeBlock no_sigpipe;
  const auto socket = Connect(address, timeout_ms);
  if (!socket.ok()) return socket.status();
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, SslDelete> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr || (tls != nullptr && !Fill(context.get(), *tls))) {
    return absl::InternalError(absl::StrCat("TLS cannot be set up: ", OpensslError()));
  }
  SSL_CTX_set_verify(context.get(), tls != nullptr ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NoteHosts);
  const std::unique_ptr<SSL, SslDelete> ssl(SSL_new(context.get()));
  constexpr unsigned char kProtocols[] = "\x02h2";
  SSL_set_alpn_protos(ssl.get(), kProtocols, 3);
  SSL_set_fd(ssl.get(), socket->fd());
  const std::string host = HostOf(address);
  std::string others;
  SSL_set_app_data(ssl.get(), &others);
  if (tls != nullptr) ExpectHost(ssl.get(), host);
  const int outcome = SSL_connect(ssl.get());
  const bool connected = outcome == 1;
  const bool silent = !connected && TimedOut(ssl.get(), outcome);
  absl::Status status;
  if (tls == nullptr) {
    if (connected) status = Wrong("the controller wants TLS: give tls_ca, tls_cert and tls_key");
  } else if (silent) {
    status = absl::UnavailableError("it is there, but does not answer");
  } else {
    status = connected ? JudgeAnswer(ssl.get()) : JudgeHandshake(ssl.get(), host, others);
  }
  ERR_clear_error();
  return status;
}

}  // namespace reel
