// What a mount shows over HTTPS, where it was asked to (web_listen): /metrics, for Prometheus.
//
// Only who has a certificate with the role monitor or admin, which is not revoked, sees it; without
// TLS, everybody on this host. Threads: Start and Stop from one thread; `describe` is called on the
// server's threads, until Stop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/web/mount_metrics.h"
#include "proto/tls/watched_revocations.h"
#include "proto/tls/watched_tls.h"
#include "proto/web/https_server.h"

namespace reel::client {

class MountPages {
 public:
  struct Options {
    std::string listen;   // HOST:PORT
    std::string program;  // this client's release
    VolumeDescriptor descriptor;
    std::function<MountFacts()> describe;
  };
  // `tls` null: without TLS. FAILED_PRECONDITION: this host's certificate names no host, so that
  // nobody could tell who serves the page; else as of HttpsServer::Start and WatchedRevocations.
  static absl::StatusOr<std::unique_ptr<MountPages>> Start(Options options,
                                                           std::shared_ptr<WatchedTls> tls);
  ~MountPages() { Stop(); }
  int port() const { return server_->port(); }
  void Stop();

 private:
  explicit MountPages(Options options, std::shared_ptr<WatchedTls> tls)
      : options_(std::move(options)), tls_(std::move(tls)) {}
  HttpsServer::Answer Metrics(const HttpsServer::Request& request) const;

  const Options options_;
  const std::shared_ptr<WatchedTls> tls_;
  std::unique_ptr<WatchedRevocations> revocations_;  // null without TLS
  std::unique_ptr<HttpsServer> server_;
};

}  // namespace reel::client
