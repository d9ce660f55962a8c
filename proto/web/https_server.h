// Pages over HTTPS, for people's browsers and for Prometheus: one server, some paths, each with a
// function that makes its answer.
//
// With TLS, a client may show a certificate of this cluster; what it may do is for each page to say
// (`Request::peer`). A certificate that the authority has not issued ends the handshake. Files that
// were renewed count from the next connection on. Without TLS only this host is served. Bounded: so
// many connections are served at once and so many wait (kThreads, kMostWaiting), each answer and
// each read has its time, and nobody's request is longer than kMostRequestBytes.
// Handlers run on the server's threads, several at once, and may wait.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/tls/watched_tls.h"

namespace reel {

class HttpsServer {
 public:
  static constexpr std::size_t kThreads = 8;
  static constexpr std::size_t kMostWaiting = 64;
  static constexpr std::size_t kMostRequestBytes = 64 * 1024;

  struct Request {
    std::string path;
    std::string from;             // its address, for the log
    std::optional<TlsPeer> peer;  // by its certificate; nullopt: it has shown none, or no TLS
  };
  struct Answer {
    int status = 200;
    std::string type = "text/plain; charset=utf-8";
    std::string body;
  };
  using Handler = std::function<Answer(const Request&)>;
  // By path. GET and HEAD alone; else 404 or 405.
  using Pages = std::map<std::string, Handler>;

  // `listen` is HOST:PORT (0: any port). `tls` null: REQUIRES a loopback address. INVALID_ARGUMENT;
  // UNAVAILABLE: the address cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpsServer>> Start(const std::string& listen,
                                                            std::shared_ptr<WatchedTls> tls,
                                                            Pages pages);
  virtual ~HttpsServer() = default;

  virtual int port() const = 0;
  // Ends what waits, and returns when no handler runs any more.
  virtual void Stop() = 0;
};

}  // namespace reel
