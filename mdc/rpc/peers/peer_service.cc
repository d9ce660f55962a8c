#include "mdc/rpc/peers/peer_service.h"

#include "mdc/rpc/volume_call.h"
#include "mdc/serve/volume_server.h"

namespace reel::mdc {

void PeerService::Watch(WatchCall& call) {
  const VolumeRole* role = VolumeOf(call, volumes_, gate_, guard_, TlsRole::kMdc, "watching");
  if (role == nullptr) return;
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
  call.Finish(grpc::Status::OK);
}

void PeerService::Accept(CallQueue& queue) {
  WatchCall::Accept(
      service_, &v1::Peers::AsyncService::RequestWatch, [this](WatchCall& call) { Watch(call); },
      queue);
}

}  // namespace reel::mdc
