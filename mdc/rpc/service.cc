#include "mdc/rpc/service.h"

#include "mdc/rpc/session_stream.h"
#include "mdc/rpc/volume_call.h"

namespace reel::mdc {

void SessionService::Where(WhereCall& call) {
  const VolumeRole* role = VolumeOf(call, volumes_, gate_, guard_, TlsRole::kClient, "mounting");
  if (role == nullptr) return;
  // (Who has the seat, and may not speak now, may be about to lose it.)
  const VolumeServer* server = role->server();
  if (server != nullptr && !server->MayAnswer()) server = nullptr;
  const VolumeRole::Active active = role->active();
  call.reply().set_here(server != nullptr);
  call.reply().set_epoch((server != nullptr ? server->epoch() : active.epoch).value());
  call.reply().set_address(active.address);
  if (!role->volume().is_nil()) call.reply().set_volume(role->volume().ToBytes());
  call.Finish(grpc::Status::OK);
}

void SessionService::Accept(CallQueue& queue) {
  WhereCall::Accept(
      service_, &v1::Mdc::AsyncService::RequestWhere, [this](WhereCall& call) { Where(call); },
      queue);
  AcceptStreams(StreamContext{service_, queue, volumes_, gate_, guard_, refusals_});
}

}  // namespace reel::mdc
