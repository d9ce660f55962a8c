// The session streams over gRPC: frames in, to the volume's queue; frames out, one write at a time.
//
// Invariants:
//   1. A stream reads on only while fewer than kMaxQueuedRequests of its requests wait for the
//   core: a client
//      that sends faster than it is served is slowed down by the transport.
//   2. A client that does not read its replies is cut off when kMaxUnsentBytes have piled up.
// Threads: gRPC's own; the volume servers' core threads send.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "mdc/volume_server.h"
#include "proto/mdc.grpc.pb.h"

namespace reel::mdc {

inline constexpr int kMaxFrameBytes = 4 << 20;

class SessionService final : public v1::Mdc::CallbackService {
 public:
  // The servers outlive every call.
  explicit SessionService(std::vector<VolumeServer*> volumes) : volumes_(std::move(volumes)) {}

  grpc::ServerBidiReactor<v1::ClientFrame, v1::ServerFrame>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  const std::vector<VolumeServer*> volumes_;
};

}  // namespace reel::mdc
