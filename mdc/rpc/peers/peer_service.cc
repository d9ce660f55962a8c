#include "mdc/rpc/peers/peer_service.h"

#include <string>

#include "mdc/serve/volume_server.h"

namespace reel::mdc {

void PeerService::Watch(WatchCall& call) {
  const auto peer = guard_.Check(*call.context().auth_context(), TlsRole::kMdc, "watching");
  if (!peer.ok()) {
    gate_.CountRefused();
    return call.Finish(
        grpc::Status(grpc::StatusCode::PERMISSION_DENIED, std::string(peer.status().message())));
  }
  for (const VolumeRole* role : volumes_) {
    if (role->name() != call.request().volume()) continue;
    gate_.Welcome(call.context().peer());
    v1::WatchReply& reply = call.reply();
    reply.set_holder(role->holder().ToBytes());
    if (VolumeServer* server = role->server()) {
      const PeerSaid said = server->Promise();
      reply.set_epoch(said.promise.epoch.value());
      reply.set_answer_ms(static_cast<std::uint32_t>(said.promise.answer_ms));
      reply.set_beat_ms(static_cast<std::uint32_t>(said.promise.beat_ms));
      reply.set_beat_age_ms(static_cast<std::uint32_t>(said.beat_age_ms));
      reply.set_promise_ms(static_cast<std::uint32_t>(said.promise.for_ms));
    }
    return call.Finish(grpc::Status::OK);
  }
  call.Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such volume here"));
}

void PeerService::Accept(CallQueue& queue) {
  WatchCall::Accept(
      service_, &v1::Peers::AsyncService::RequestWatch, [this](WatchCall& call) { Watch(call); },
      queue);
}

}  // namespace reel::mdc
