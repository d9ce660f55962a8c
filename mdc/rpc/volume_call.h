// What every unary call about a volume begins with, whoever may make it. Threads: the call's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/serve/volume_role.h"

namespace reel::mdc {

// The role of the volume that the call's request names. Null: the call has been finished, since its
// peer may not ask (PERMISSION_DENIED), or there is no such volume here (NOT_FOUND).
template <typename Call>
const VolumeRole* VolumeOf(Call& call, const std::vector<VolumeRole*>& volumes,
                           ConnectionGate& gate, const PeerGuard& guard, TlsRole role,
                           std::string_view purpose) {
  const auto peer = guard.Check(*call.context().auth_context(), role, purpose);
  if (!peer.ok()) {
    gate.CountRefused();
    call.Finish(
        grpc::Status(grpc::StatusCode::PERMISSION_DENIED, std::string(peer.status().message())));
    return nullptr;
  }
  for (const VolumeRole* volume : volumes) {
    if (volume->name() != call.request().volume()) continue;
    gate.Welcome(call.context().peer());
    return volume;
  }
  call.Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such volume here"));
  return nullptr;
}

}  // namespace reel::mdc
