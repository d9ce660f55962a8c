// Administration of a volume's seat: handing over, stopping and starting, maintenance. What is told
// here is done by the daemon afterwards, and seen by asking for the volumes again.
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/rpc/admin_service.h"

namespace reel::mdc {

void AdminService::AcceptSeatCalls(CallQueue& queue) {
  using FailCall = Call<v1::FailRequest, v1::FailReply>;
  using StopCall = Call<v1::StopRequest, v1::StopReply>;
  using StartCall = Call<v1::StartRequest, v1::StartReply>;
  using MaintenanceCall = Call<v1::MaintenanceRequest, v1::MaintenanceReply>;
  AcceptKind<FailCall>(
      &Service::RequestFail, [this](FailCall& call) { Fail(call); }, queue);
  AcceptKind<StopCall>(
      &Service::RequestStop, [this](StopCall& call) { StopVolume(call); }, queue);
  AcceptKind<StartCall>(
      &Service::RequestStart, [this](StartCall& call) { StartVolume(call); }, queue);
  AcceptKind<MaintenanceCall>(
      &Service::RequestMaintenance, [this](MaintenanceCall& call) { Maintenance(call); }, queue);
}

// The daemon begins anew as a standby once all that it serves is durable.
void AdminService::Fail(Call<v1::FailRequest, v1::FailReply>& call) {
  grpc::Status why;
  const VolumeServer* server = Find(call.context(), call.request().volume(), &why);
  if (server == nullptr) return call.Finish(why);
  SeatFarewell how{.state = ArbitrationBlock::State::kOffered};
  if (!call.request().successor().empty()) {
    const auto successor = Uuid::FromBytes(call.request().successor());
    if (!successor.ok()) {
      return call.Finish(
          grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the successor is named by a UUID"));
    }
    how.successor = *successor;
  } else if (server->maintenance()) {
    return call.Finish(grpc::Status(
        grpc::StatusCode::FAILED_PRECONDITION,
        "the volume is in maintenance, and no standby takes it over by itself; name one with "
        "\"activate\", or end that with \"maintenance off\""));
  }
  const std::string volume = call.request().volume();
  call.Finish(grpc::Status::OK);
  if (about_.leave) about_.leave(volume, how);
}

void AdminService::StopVolume(Call<v1::StopRequest, v1::StopReply>& call) {
  OnVolume(call, [this, &call](VolumeServer&, Core& core) {
    v1::WhoReply who;
    core.Describe(who);
    call.reply().set_sessions(static_cast<std::uint32_t>(who.sessions_size()));
    const std::string volume = call.request().volume();
    call.Finish(grpc::Status::OK);
    if (about_.leave) about_.leave(volume, {.stopped = true});
  });
}

void AdminService::StartVolume(Call<v1::StartRequest, v1::StartReply>& call) {
  const std::string volume = call.request().volume();
  const VolumeRole* role = RoleOf(volume);
  if (role == nullptr) {
    return call.Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                    absl::StrCat("volume ", volume, " is not served here")));
  }
  const bool serves = role->server() != nullptr;
  call.Finish(grpc::Status::OK);
  if (!serves && about_.take) about_.take(volume);
}

void AdminService::Maintenance(Call<v1::MaintenanceRequest, v1::MaintenanceReply>& call) {
  OnVolume(call, [&call](VolumeServer& volume, Core& core) {
    volume.SetMaintenance(core, call.request().on(),
                          [&call](const absl::Status& status) { call.Finish(ToGrpc(status)); });
  });
}

}  // namespace reel::mdc
