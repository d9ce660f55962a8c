#include "proto/tls/tls_server.h"

#include <openssl/err.h>

#include <memory>
#include <utility>
#include <vector>

#include "spdlog/spdlog.h"

namespace reel {
namespace {

// Browsers ask people for a certificate only where they have one of these authorities.
void NameAuthorities(SSL& connection, const std::vector<OpensslPtr<X509>>& authorities) {
  STACK_OF(X509_NAME)* names = sk_X509_NAME_new_null();
  for (const auto& authority : authorities)
    sk_X509_NAME_push(names, X509_NAME_dup(X509_get_subject_name(authority.get())));
  SSL_set_client_CA_list(&connection, names);  // and owns it
}

bool UseFiles(SSL& connection, const TlsMaterial& files) {
  const auto authorities = ParseCertificates(files.ca_pem);
  const auto own = ParseCertificates(files.cert_pem);
  const auto key = ParsePrivateKey(files.key_pem);
  if (!authorities.ok() || !own.ok() || !key.ok()) return false;
  const OpensslPtr<X509_STORE> store(X509_STORE_new());
  for (const auto& authority : *authorities) X509_STORE_add_cert(store.get(), authority.get());
  bool used = SSL_set1_verify_cert_store(&connection, store.get()) == 1 &&
              SSL_use_certificate(&connection, own->front().get()) == 1 &&
              SSL_use_PrivateKey(&connection, key->get()) == 1;
  for (std::size_t i = 1; used && i < own->size(); ++i)
    used = SSL_add1_chain_cert(&connection, (*own)[i].get()) == 1;
  NameAuthorities(connection, *authorities);
  return used;
}

int OnCertificateWanted(SSL* connection, void* tls) {
  const std::shared_ptr<const TlsMaterial> files = static_cast<WatchedTls*>(tls)->Current();
  if (UseFiles(*connection, *files)) return 1;
  spdlog::warn("a TLS connection is refused: {}", OpensslError());
  return 0;
}

}  // namespace

std::optional<TlsPeer> TlsConnection::peer() const {
  const OpensslPtr<X509> shown(SSL_get1_peer_certificate(ssl_.get()));
  if (shown == nullptr) return std::nullopt;
  auto peer = PeerOf(*shown);
  return peer.ok() ? std::optional(*std::move(peer)) : std::nullopt;
}

ssize_t TlsConnection::Read(char* to, std::size_t bytes) {
  ERR_clear_error();
  std::size_t read = 0;
  if (SSL_read_ex(ssl_.get(), to, bytes, &read) == 1) return static_cast<ssize_t>(read);
  return SSL_get_error(ssl_.get(), 0) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t TlsConnection::Write(const char* from, std::size_t bytes) {
  ERR_clear_error();
  std::size_t written = 0;
  return SSL_write_ex(ssl_.get(), from, bytes, &written) == 1 ? static_cast<ssize_t>(written) : -1;
}

void TlsConnection::Close() {
  ERR_clear_error();
  (void)SSL_shutdown(ssl_.get());
}

TlsServer::TlsServer(std::shared_ptr<WatchedTls> tls)
    : tls_(std::move(tls)), context_(SSL_CTX_new(TLS_server_method())) {
  SSL_CTX* const context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_cb(context, OnCertificateWanted, tls_.get());
}

std::unique_ptr<TlsConnection> TlsServer::Accept(int socket) const {
  ERR_clear_error();
  std::unique_ptr<TlsConnection> connection(new TlsConnection(SSL_new(context_.get())));
  SSL* const ssl = connection->ssl_.get();
  if (ssl == nullptr || SSL_set_fd(ssl, socket) != 1 || SSL_accept(ssl) != 1) {
    (void)OpensslError();
    return nullptr;
  }
  return connection;
}

}  // namespace reel
