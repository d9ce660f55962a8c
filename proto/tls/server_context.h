// TLS of a server that is no gRPC server: OpenSSL's context for it, by files that may be renewed.
// Threads: the context is for any number of connections at once.
#pragma once

#include <openssl/ssl.h>

#include <optional>

#include "proto/tls/watched_tls.h"

namespace reel {

// Each new connection uses the files as they are then. A client may show a certificate, which the
// authority has to have issued; TLS 1.2 at least; no session is resumed, so that each connection is
// checked. `tls` outlives the context.
void SetUpServerContext(SSL_CTX& context, WatchedTls& tls);

// Who is at the other end: nullopt where it has shown no certificate, or none of ReelFS.
std::optional<TlsPeer> PeerOf(const SSL& connection);

}  // namespace reel
