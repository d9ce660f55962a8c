// What other controllers ask this one (proto/peers.proto). With TLS, only those with the role mdc.
// Threads: calls come in on the call queue's.
#pragma once

#include <vector>

#include "mdc/rpc/call_queue.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/serve/volume_role.h"
#include "proto/peers.grpc.pb.h"

namespace reel::mdc {

class PeerService {
 public:
  // The roles, the gate and the guard outlive every call.
  PeerService(std::vector<VolumeRole*> volumes, ConnectionGate& gate, const PeerGuard& guard)
      : volumes_(std::move(volumes)), gate_(gate), guard_(guard) {}

  grpc::Service* grpc() { return &service_; }
  // Accepts calls from now on, until the server is shut down.
  void Accept(CallQueue& queue);

 private:
  using WatchCall = UnaryCall<v1::Peers::AsyncService, v1::WatchRequest, v1::WatchReply>;
  void Watch(WatchCall& call);

  v1::Peers::AsyncService service_;
  const std::vector<VolumeRole*> volumes_;
  ConnectionGate& gate_;
  const PeerGuard& guard_;
};

}  // namespace reel::mdc
