// The session streams over gRPC: frames in, to the volume's queue; frames out, one write at a time.
//
// Invariants:
//   1. A stream reads on only while fewer than kMaxQueuedRequests of its requests wait for the
//   core: a client that sends faster than it is served is slowed down by the transport.
//   2. A client that does not read its replies is cut off when UnsentFrames::kMaxBytes have piled
//   up.
//   3. The next frame is read when the last one has been posted: frames keep their order.
//   4. A stream that has not said Hello within the gate's time for the unknown is ended.
//   5. With TLS, a stream is served only for a certificate with the role client; the volume knows
//      its name. When it is revoked, the session is ended.
//   6. A stream for a volume of which this daemon is a standby is ended with the address of the
//      active controller.
// Threads: frames come in on the call queue's thread; whoever holds a core's seat sends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mdc/base/log_limit.h"
#include "mdc/rpc/call_queue.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/serve/volume_role.h"
#include "mdc/serve/volume_server.h"
#include "proto/mdc.grpc.pb.h"

namespace reel::mdc {

inline constexpr int kMaxFrameBytes = 4 << 20;

class SessionService {
 public:
  // The roles, the gate and the guard outlive every call.
  SessionService(std::vector<VolumeRole*> volumes, ConnectionGate& gate, PeerGuard& guard)
      : volumes_(std::move(volumes)), gate_(gate), guard_(guard) {}

  grpc::Service* grpc() { return &service_; }
  // Accepts streams, and questions for the active controller, from now on, until the server is shut
  // down.
  void Accept(CallQueue& queue);

 private:
  using WhereCall = UnaryCall<v1::Mdc::AsyncService, v1::WhereRequest, v1::WhereReply>;
  void Where(WhereCall& call);

  v1::Mdc::AsyncService service_;
  const std::vector<VolumeRole*> volumes_;
  ConnectionGate& gate_;
  PeerGuard& guard_;
  LogLimit refusals_;
};

}  // namespace reel::mdc
