#include "proto/tls/server_context.h"

#include <memory>
#include <utility>

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

void SetUpServerContext(SSL_CTX& context, WatchedTls& tls) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_cb(&context, OnCertificateWanted, &tls);
}

std::optional<TlsPeer> PeerOf(const SSL& connection) {
  const OpensslPtr<X509> shown(SSL_get1_peer_certificate(&connection));
  if (shown == nullptr) return std::nullopt;
  auto peer = PeerOf(*shown);
  return peer.ok() ? std::optional(*std::move(peer)) : std::nullopt;
}

}  // namespace reel
