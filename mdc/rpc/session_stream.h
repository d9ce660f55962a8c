// One client's stream over gRPC: its frames to the volume that its Hello names, and replies back.
//
// Invariants:
//   1. The next frame is read when the last one has been posted (frames keep their order), and only
//   while the read gate is open.
//   2. Before Hello nothing but Hello is taken; without it the stream ends after the gate's time.
//   3. The volume learns of the end of a stream once, after its last frame.
//   4. The steps under way own the stream, and so does the volume's core until it has seen it end.
// Threads: steps run on the call queue's thread; the holder of a core's seat sends.
#pragma once

#include <vector>

#include "mdc/base/log_limit.h"
#include "mdc/rpc/call_queue.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/serve/volume_role.h"
#include "proto/mdc.grpc.pb.h"

namespace reel::mdc {

// What all streams share.
struct StreamContext {
  v1::Mdc::AsyncService& service;
  CallQueue& queue;
  const std::vector<VolumeRole*>& volumes;
  ConnectionGate& gate;
  PeerGuard& guard;
  LogLimit& refusals;
};

// Takes streams from now on, until the server is shut down.
void AcceptStreams(const StreamContext& shared);

}  // namespace reel::mdc
