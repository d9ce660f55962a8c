// Administration: changes of a volume's map. Their keeper does them, and answers.
#include <string>

#include "mdc/rpc/admin_service.h"

namespace reel::mdc {
namespace {

// Answers the call with what the keeper says.
template <typename AnyCall, typename Reply>
void Answer(AnyCall& call, const absl::StatusOr<Reply>& reply) {
  if (reply.ok()) call.reply() = *reply;
  call.Finish(ToGrpc(reply.status()));
}

}  // namespace

void AdminService::AcceptMapCalls(CallQueue& queue) {
  using ChangeCall = Call<v1::ChangeMapRequest, v1::ChangeMapReply>;
  using CloseCall = Call<v1::CloseSpaceRequest, v1::CloseSpaceReply>;
  AcceptKind<ChangeCall>(
      &Service::RequestChangeMap,
      [this](ChangeCall& call) {
        grpc::Status why;
        VolumeServer* const volume = Find(call.context(), call.request().volume(), &why);
        if (volume == nullptr) return call.Finish(why);
        volume->map().Change(call.request(), [&call](const auto& reply) { Answer(call, reply); });
      },
      queue);
  AcceptKind<CloseCall>(
      &Service::RequestCloseSpace,
      [this](CloseCall& call) {
        grpc::Status why;
        VolumeServer* const volume = Find(call.context(), call.request().volume(), &why);
        if (volume == nullptr) return call.Finish(why);
        volume->map().CloseSpace(call.request(),
                                 [&call](const auto& reply) { Answer(call, reply); });
      },
      queue);
}

}  // namespace reel::mdc
