// Pages over HTTPS, for people's browsers and for Prometheus: one server, some paths, each with a
// function that makes its answer.
//
// With TLS, a client may show a certificate of this cluster; what it may do is for each page to say
// (`Request::peer`). Without TLS only this host is served. Whoever connects may be anybody, so all
// is bounded: a connection carries one request, of so many bytes, and has so long from its
// beginning to its end; so many are served at once, and so many wait. Threads: Start and Stop from
// one thread; handlers run on the server's threads, several at once, and may wait.
#pragma once

#include <chrono>
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
  static constexpr std::chrono::milliseconds kConnectionTime{15'000};

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
  // UNAVAILABLE: no port is to be had. A port that is taken is tried again each second.
  static absl::StatusOr<std::unique_ptr<HttpsServer>> Start(const std::string& listen,
                                                            std::shared_ptr<WatchedTls> tls,
                                                            Pages pages);
  virtual ~HttpsServer() = default;

  virtual int port() const = 0;
  // Ends all connections, whatever their peers do, and returns when no handler runs any more.
  virtual void Stop() = 0;
};

}  // namespace reel
