// The daemon's gRPC server: both services on one address, over the volumes that it was given,
// served or stood by for.
// Threads: Start and Stop from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "mdc/rpc/admin_service.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/rpc/peers/peer_service.h"
#include "mdc/rpc/service.h"
#include "mdc/serve/volume_server.h"
#include "proto/tls/watched_tls.h"

namespace reel::mdc {

class GrpcServer {
 public:
  // `listen` is HOST:PORT (0: any port). The roles outlive the server. With `tls`, clients and
  // administrators are known by their certificates; without it everybody may do everything.
  // UNAVAILABLE: the address cannot be had; errors as of PeerGuard::Open.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, std::vector<VolumeRole*> volumes,
      std::vector<std::string> lun_patterns, std::shared_ptr<WatchedTls> tls = nullptr,
      const ConnectionGate::Options& connections = {}, AboutDaemon about = {});
  ~GrpcServer();

  int port() const { return gate_->port(); }
  const PeerGuard& guard() const { return *guard_; }
  ConnectionGate& gate() { return *gate_; }
  // Ends all calls. After it, nothing of gRPC calls the volumes any more. REQUIRES: the volumes are
  // stopped.
  void Stop();

 private:
  GrpcServer(std::unique_ptr<ConnectionGate> gate, std::unique_ptr<PeerGuard> guard,
             std::vector<VolumeRole*> volumes, std::vector<std::string> lun_patterns,
             AboutDaemon about)
      : gate_(std::move(gate)),
        guard_(std::move(guard)),
        sessions_(volumes, *gate_, *guard_),
        peers_(volumes, *gate_, *guard_),
        admin_(std::move(volumes), std::move(lun_patterns), *gate_, *guard_, std::move(about)) {}

  const std::unique_ptr<ConnectionGate> gate_;
  const std::unique_ptr<PeerGuard> guard_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  SessionService sessions_;
  PeerService peers_;
  AdminService admin_;
  std::unique_ptr<CallQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace reel::mdc
