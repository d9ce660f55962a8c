#include "proto/grpc/grpc_tls.h"

#include <grpc/grpc_security.h>
#include <grpc/support/log.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/mutex.h"

namespace reel {
namespace {

// Who is told of failed handshakes, of which only gRPC's log tells.
struct HandshakeEar {
  Mutex mutex;
  std::function<void(std::string_view)> callback ABSL_GUARDED_BY(mutex);
};

HandshakeEar& Ear() {
  static HandshakeEar ear;
  return ear;
}

void ReportHandshake(std::string_view line) {
  constexpr std::string_view kBegin = "Handshake failed with ";
  if (!line.starts_with(kBegin)) return;
  line.remove_prefix(kBegin.size());
  if (line.ends_with(".")) line.remove_suffix(1);
  HandshakeEar& ear = Ear();
  MutexLock lock(ear.mutex);
  if (ear.callback) ear.callback(line.substr(line.rfind(':') + 1));  // OpenSSL's reason comes last
}

// gRPC prints what fails in a handshake on standard error, several lines for each attempt. What a
// person needs of it, ProbeMdc and the controller's door say in one.
void KeepGrpcQuiet() {
  static const bool once = [] {
    gpr_set_log_function([](gpr_log_func_args* args) {
      ReportHandshake(args->message);
      spdlog::debug("gRPC: {}", args->message);
    });
    return true;
  }();
  (void)once;
}

// What grpc::SslServerCredentials are, but for the certificates: gRPC asks for them with each
// handshake. (Only its C interface can do that.)
class WatchingCredentials final : public grpc::ServerCredentials {
 public:
  explicit WatchingCredentials(std::shared_ptr<WatchedTls> tls)
      : tls_(std::move(tls)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, Fetch, this))) {}
  WatchingCredentials(const WatchingCredentials&) = delete;
  WatchingCredentials& operator=(const WatchingCredentials&) = delete;
  ~WatchingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<WatchingCredentials*>(self)->FetchChanged(config);
  }
  grpc_ssl_certificate_config_reload_status FetchChanged(
      grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const TlsMaterial> now = tls_->Current();
    MutexLock lock(mutex_);
    if (now == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    given_ = std::move(now);
    const grpc_ssl_pem_key_cert_pair pair{given_->key_pem.c_str(), given_->cert_pem.c_str()};
    *config = grpc_ssl_server_certificate_config_create(given_->ca_pem.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<WatchedTls> tls_;
  grpc_server_credentials* const credentials_;
  Mutex mutex_;
  std::shared_ptr<const TlsMaterial> given_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(std::shared_ptr<WatchedTls> tls) {
  KeepGrpcQuiet();
  if (tls == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<WatchingCredentials>(std::move(tls));
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const TlsMaterial* tls) {
  KeepGrpcQuiet();
  if (tls == nullptr) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = tls->ca_pem;
  options.pem_private_key = tls->key_pem;
  options.pem_cert_chain = tls->cert_pem;
  return grpc::SslCredentials(options);
}

void OnFailedHandshake(std::function<void(std::string_view)> callback) {
  HandshakeEar& ear = Ear();
  MutexLock lock(ear.mutex);
  ear.callback = std::move(callback);
}

absl::StatusOr<TlsPeer> PeerOf(const grpc::AuthContext& context) {
  const auto values = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (values.size() != 1) return absl::InvalidArgumentError("the peer has shown no certificate");
  return PeerOf(std::string_view(values.front().data(), values.front().size()));
}

absl::Status CheckController(const grpc::AuthContext& context, const Revocations* revocations) {
  if (revocations == nullptr) return absl::OkStatus();
  const auto peer = PeerWithRole(context, TlsRole::kMdc, "serving volumes");
  return peer.ok() ? revocations->Check(*peer) : peer.status();
}

absl::StatusOr<TlsPeer> PeerWithRole(const grpc::AuthContext& context, TlsRole role,
                                     std::string_view purpose) {
  auto peer = PeerOf(context);
  if (!peer.ok()) return absl::PermissionDeniedError(peer.status().message());
  if (absl::Status s = RequireRole(*peer, {&role, 1}, purpose); !s.ok()) return s;
  return peer;
}

}  // namespace reel
