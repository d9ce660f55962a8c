// Administration of guaranteed bandwidth: each call is the core's to answer.
#include "mdc/rpc/admin_service.h"

namespace reel::mdc {
void AdminService::AcceptBandwidthCalls(CallQueue& queue) {
  using ShowCall = Call<v1::BandwidthRequest, v1::BandwidthReply>;
  using SetCall = Call<v1::SetBandwidthRequest, v1::SetBandwidthReply>;
  AcceptKind<ShowCall>(
      &Service::RequestBandwidth,
      [this](ShowCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          core.Describe(call.reply());
          call.Finish(grpc::Status::OK);
        });
      },
      queue);
  AcceptKind<SetCall>(
      &Service::RequestSetBandwidth,
      [this](SetCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          core.SetBandwidth(call.request(), call.reply(),
                            [&call](const absl::Status& done) { call.Finish(ToGrpc(done)); });
        });
      },
      queue);
}

}  // namespace reel::mdc
