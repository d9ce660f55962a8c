// The session streams over gRPC: frames in, to the volume's queue; frames out, one write at a time.
//
// Invariants:
//   1. A stream reads on only while fewer than kMaxQueuedRequests of its requests wait for the
//   core: a client that sends faster than it is served is slowed down by the transport.
//   2. A client that does not read its replies is cut off when kMaxUnsentBytes have piled up.
//   3. The next frame is read when the last one has been posted: frames keep their order.
//   4. With TLS, a stream is served only for a certificate with the role client; the volume knows
//      its name.
// Threads: frames come in on the call queue's thread; whoever holds a core's seat sends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mdc/call_queue.h"
#include "mdc/volume_server.h"
#include "proto/mdc.grpc.pb.h"

namespace reel::mdc {

inline constexpr int kMaxFrameBytes = 4 << 20;

class SessionService {
 public:
  // The servers outlive every call.
  SessionService(std::vector<VolumeServer*> volumes, bool tls)
      : volumes_(std::move(volumes)), tls_(tls) {}

  grpc::Service* grpc() { return &service_; }
  // Accepts streams from now on, until the server is shut down.
  void Accept(CallQueue& queue);

 private:
  v1::Mdc::AsyncService service_;
  const std::vector<VolumeServer*> volumes_;
  const bool tls_;
};

}  // namespace reel::mdc
