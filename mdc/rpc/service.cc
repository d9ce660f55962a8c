#include "mdc/rpc/service.h"

#include <string>

#include "mdc/rpc/session_stream.h"

namespace reel::mdc {

void SessionService::Where(WhereCall& call) {
  const auto peer = guard_.Check(*call.context().auth_context(), TlsRole::kClient, "mounting");
  if (!peer.ok()) {
    gate_.CountRefused();
    return call.Finish(
        grpc::Status(grpc::StatusCode::PERMISSION_DENIED, std::string(peer.status().message())));
  }
  for (const VolumeRole* role : volumes_) {
    if (role->name() != call.request().volume()) continue;
    gate_.Welcome(call.context().peer());
    // (Who has the seat, and may not speak now, may be about to lose it.)
    const VolumeServer* server = role->server();
    if (server != nullptr && !server->MayAnswer()) server = nullptr;
    const VolumeRole::Active active = role->active();
    call.reply().set_here(server != nullptr);
    call.reply().set_epoch((server != nullptr ? server->epoch() : active.epoch).value());
    call.reply().set_address(active.address);
    if (!role->volume().is_nil()) call.reply().set_volume(role->volume().ToBytes());
    return call.Finish(grpc::Status::OK);
  }
  call.Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such volume here"));
}

void SessionService::Accept(CallQueue& queue) {
  WhereCall::Accept(
      service_, &v1::Mdc::AsyncService::RequestWhere, [this](WhereCall& call) { Where(call); },
      queue);
  AcceptStreams(StreamContext{service_, queue, volumes_, gate_, guard_, refusals_});
}

}  // namespace reel::mdc
