// What a controller shows over HTTPS: /metrics, for Prometheus.
//
// Only who has a certificate with the role monitor or admin sees it (without TLS, everybody on this
// host: no other is served). A page asks all volumes' cores for what it is to show, and waits for
// them on the web server's thread. Threads: handlers run at once; the roles, the guard and the gate
// outlive the server.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mdc/base/log_limit.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/serve/volume_role.h"
#include "mdc/web/volume_metrics.h"
#include "proto/web/https_server.h"
#include "volume/base/mutex.h"

namespace reel::mdc {

class WebPages {
 public:
  // Who sees them, and what of this daemon they show.
  struct Daemon {
    const PeerGuard& guard;
    ConnectionGate& gate;
    std::shared_ptr<WatchedTls> tls;  // null: there is no TLS
    std::string host;
    std::string program;  // its release
  };
  WebPages(std::vector<VolumeRole*> volumes, Daemon daemon)
      : volumes_(std::move(volumes)), daemon_(std::move(daemon)) {}

  // This outlives every call of these.
  HttpsServer::Pages Pages();

 private:
  struct Asked;
  HttpsServer::Answer Refuse(const HttpsServer::Request& request, const absl::Status& why);
  HttpsServer::Answer Metrics() const;
  void WriteDaemon(MetricWriter& metrics) const;
  // Null: this controller does not serve the volume.
  static std::shared_ptr<Asked> Ask(const VolumeRole& role);
  static void WriteRole(const VolumeRole& role, MetricWriter& metrics);

  const std::vector<VolumeRole*> volumes_;
  const Daemon daemon_;
  Mutex mutex_;
  LogLimit refusals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::mdc
