// TLS of a server that is no gRPC server, by files that may be renewed.
//
// Each connection uses the files as they are when it begins. A peer may show a certificate; one
// that the authority has not issued ends the handshake. TLS 1.2 at least; no session is resumed, so
// that each connection is checked. Threads: connections may be made at once; each belongs to one
// thread.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "proto/tls/watched_tls.h"

namespace reel {

class TlsConnection {
 public:
  // Who is at the other end: nullopt where it has shown no certificate, or none of ReelFS.
  std::optional<TlsPeer> peer() const;
  // As read(2) and write(2) of the blocking socket.
  ssize_t Read(char* to, std::size_t bytes);
  ssize_t Write(const char* from, std::size_t bytes);
  // Says that it is the end.
  void Close();

 private:
  friend class TlsServer;
  struct Delete {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  explicit TlsConnection(SSL* ssl) : ssl_(ssl) {}
  std::unique_ptr<SSL, Delete> ssl_;
};

class TlsServer {
 public:
  explicit TlsServer(std::shared_ptr<WatchedTls> tls);

  // Waits for the handshake on a blocking socket, which is not closed here. Null: it has failed.
  std::unique_ptr<TlsConnection> Accept(int socket) const;

 private:
  struct Delete {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  const std::shared_ptr<WatchedTls> tls_;
  std::unique_ptr<SSL_CTX, Delete> context_;
};

}  // namespace reel
