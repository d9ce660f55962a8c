// Administration of quotas: each call is the core's to answer.
#include "mdc/rpc/admin_service.h"

namespace reel::mdc {
void AdminService::AcceptQuotaCalls(CallQueue& queue) {
  using QuotasCall = Call<v1::QuotasRequest, v1::QuotasReply>;
  using SetCall = Call<v1::SetQuotasRequest, v1::SetQuotasReply>;
  AcceptKind<QuotasCall>(
      &Service::RequestQuotas,
      [this](QuotasCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          call.Finish(ToGrpc(core.Describe(call.request(), call.reply())));
        });
      },
      queue);
  AcceptKind<SetCall>(
      &Service::RequestSetQuotas,
      [this](SetCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          core.SetQuotas(call.request(), call.reply(),
                         [&call](const absl::Status& done) { call.Finish(ToGrpc(done)); });
        });
      },
      queue);
}

}  // namespace reel::mdc
