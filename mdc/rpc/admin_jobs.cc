// Administration of jobs, which move data or check metadata while the volume is in use, and of the
// space that they are about.
#include "mdc/rpc/admin_service.h"

namespace reel::mdc {
namespace {

// Answers with the job that was begun or changed, once that is durable.
template <typename AnyCall>
void AnswerJob(AnyCall& call, Core& core, const absl::StatusOr<Core::ChangedJob>& changed) {
  if (!changed.ok()) {
    return call.Finish(ToGrpc(changed.status()));
  }
  core.AwaitDurable(changed->sequence, [&call, &core, job = changed->job](bool durable) {
    if (!durable) return call.Finish(ToGrpc(ControllerStops()));
    v1::JobsReply all;
    core.Describe(all);
    for (v1::JobsReply::Job& one : *all.mutable_jobs()) {
      if (one.job() == job.value()) *call.reply().add_jobs() = std::move(one);
    }
    call.Finish(grpc::Status::OK);
  });
}

// A LUN that takes another one's place is looked at, and labelled, before the job begins.
template <typename StartCall>
void StartReplacement(StartCall& call, VolumeServer& volume) {
  volume.map().Replace(call.request(), [&call, &volume](const auto& changed) {
    volume.RunOnCore([&call, changed](Core& core) { AnswerJob(call, core, changed); },
                     [&call] { call.Finish(ToGrpc(ControllerStops())); });
  });
}

}  // namespace

void AdminService::AcceptJobCalls(CallQueue& queue) {
  using StartCall = Call<v1::StartJobRequest, v1::JobsReply>;
  using ListCall = Call<v1::JobsRequest, v1::JobsReply>;
  using ChangeCall = Call<v1::ChangeJobRequest, v1::JobsReply>;
  AcceptKind<StartCall>(
      &Service::RequestStartJob,
      [this](StartCall& call) {
        if (!call.request().with().empty()) {
          grpc::Status why;
          VolumeServer* const volume = Find(call.context(), call.request().volume(), &why);
          if (volume == nullptr) return call.Finish(why);
          return StartReplacement(call, *volume);
        }
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          AnswerJob(call, core, core.StartJob(call.request()));
        });
      },
      queue);
  AcceptKind<ListCall>(
      &Service::RequestJobs,
      [this](ListCall& call) {
        OnCore<ListCall>(
            call, [](VolumeServer&, Core& core, ListCall& list) { core.Describe(list.reply()); });
      },
      queue);
  using FreeCall = Call<v1::FreeRequest, v1::FreeReply>;
  AcceptKind<FreeCall>(
      &Service::RequestFree,
      [this](FreeCall& call) {
        OnCore<FreeCall>(call, [](VolumeServer& volume, Core& core, FreeCall& free) {
          core.Describe(free.reply());
          volume.Complete(free.reply());
        });
      },
      queue);
  AcceptKind<ChangeCall>(
      &Service::RequestChangeJob,
      [this](ChangeCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          AnswerJob(call, core,
                    core.ChangeJob(JobId(call.request().job()), call.request().state()));
        });
      },
      queue);
}

}  // namespace reel::mdc
