#include "proto/grpc/grpc_tls.h"

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

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(
    const std::optional<TlsMaterial>& material) {
  KeepGrpcQuiet();
  if (!material) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = material->ca_pem;
  options.pem_key_cert_pairs.push_back({material->key_pem, material->cert_pem});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(
    const std::optional<TlsMaterial>& material) {
  KeepGrpcQuiet();
  if (!material) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = material->ca_pem;
  options.pem_private_key = material->key_pem;
  options.pem_cert_chain = material->cert_pem;
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

absl::StatusOr<TlsPeer> PeerWithRole(const grpc::AuthContext& context, TlsRole role,
                                     std::string_view purpose) {
  auto peer = PeerOf(context);
  if (!peer.ok()) return absl::PermissionDeniedError(peer.status().message());
  if (peer->role == role) return peer;
  return absl::PermissionDeniedError(absl::StrCat(
      "the certificate of ", peer->name, " has the role ", std::string(RoleName(peer->role)), "; ",
      std::string(purpose), " takes one with the role ", std::string(RoleName(role))));
}

}  // namespace reel
