// Administration over gRPC: unary calls, answered from the core threads (or, for Disks, from a
// thread that may wait for LUNs). With TLS, only to certificates with the role admin. Threads:
// calls come in on the call queue's.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mdc/rpc/call_queue.h"
#include "mdc/rpc/connection_gate.h"
#include "mdc/rpc/peer_guard.h"
#include "mdc/serve/volume_role.h"
#include "mdc/serve/volume_server.h"
#include "proto/admin.grpc.pb.h"
#include "proto/protocol.h"
#include "volume/base/mutex.h"

namespace reel::mdc {

// As the caller of an administration's call gets it.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// This daemon, as administrators are told of it, and what they can tell it.
struct AboutDaemon {
  std::string host;       // its name
  std::string program{};  // its release
  ProtocolRange protocol = SpokenProtocol();
  // Begins to leave the seats of all volumes, this one's in that way; does not wait for it.
  std::function<void(const std::string& volume, const SeatFarewell& how)> leave{};
  // Lets the standby of a volume take a seat that nobody has.
  std::function<void(const std::string& volume)> take{};
  // The exports of a volume as its file has them now, which rule from here on; else as they are.
  // INVALID_ARGUMENT: the file is wrong, and nothing has changed.
  std::function<absl::StatusOr<std::vector<Export>>(const std::string& volume, bool reload)>
      exports{};
  // What it goes by, as SettingsReply.
  std::function<void(v1::SettingsReply& reply)> describe{};
};

class AdminService {
 public:
  // `patterns`: where Disks looks for LUNs. The roles, the gate and the guard outlive every call.
  AdminService(std::vector<VolumeRole*> volumes, std::vector<std::string> patterns,
               ConnectionGate& gate, const PeerGuard& guard, AboutDaemon about);
  ~AdminService() { Stop(); }

  grpc::Service* grpc() { return &service_; }
  // Accepts calls from now on, until the server is shut down.
  void Accept(CallQueue& queue);
  // Answers what waits for LUNs, and takes no more.
  void Stop();

 private:
  static constexpr std::size_t kMaxWaiting = 16;
  using Service = v1::Admin::AsyncService;
  template <typename Request, typename Reply>
  using Call = UnaryCall<Service, Request, Reply>;

  // Accepts calls of one kind; `handler` gets those of administrators.
  template <typename AnyCall>
  void AcceptKind(typename AnyCall::Ask ask, typename AnyCall::Handler handler, CallQueue& queue);
  static grpc::Status Stopping();
  grpc::Status CheckRole(const grpc::ServerContext& context) const;
  // Answers with this daemon's protocol versions; not OK: the caller speaks none of them.
  grpc::Status CheckProtocol(grpc::ServerContext& context) const;
  // The volume's server here; null: `*why` says that there is none, or where there is one.
  VolumeServer* Find(grpc::ServerContext& context, const std::string& name,
                     grpc::Status* why) const;
  // Runs `action(volume, core)` on the core's seat, to answer the call; else answers it.
  template <typename AnyCall, typename Action>
  void OnVolume(AnyCall& call, Action action);
  // Answers the call with what `action` puts into its reply, on the core's seat.
  template <typename AnyCall>
  void OnCore(AnyCall& call, void (*action)(VolumeServer&, Core&, AnyCall&));
  void Volumes(v1::VolumesReply& reply) const;
  void Fail(Call<v1::FailRequest, v1::FailReply>& call);
  void StopVolume(Call<v1::StopRequest, v1::StopReply>& call);
  void StartVolume(Call<v1::StartRequest, v1::StartReply>& call);
  void Maintenance(Call<v1::MaintenanceRequest, v1::MaintenanceReply>& call);
  void AcceptSeatCalls(CallQueue& queue);
  void AcceptDumpCalls(CallQueue& queue);
  void AcceptMapCalls(CallQueue& queue);
  void AcceptInspectCalls(CallQueue& queue);
  void AcceptDaemonCalls(CallQueue& queue);
  void Exports(Call<v1::ExportsRequest, v1::ExportsReply>& call);
  void AcceptJobCalls(CallQueue& queue);
  void AcceptQuotaCalls(CallQueue& queue);
  void AcceptBandwidthCalls(CallQueue& queue);
  // Runs `action(dumps)` of the volume, which is to answer the call; else answers it.
  template <typename AnyCall, typename Action>
  void OnDumps(AnyCall& call, Action action);
  // The same of a call that names a dump.
  template <typename AnyCall, typename Action>
  void OnDump(AnyCall& call, Action action);
  const VolumeRole* RoleOf(const std::string& volume) const;
  void Evict(Call<v1::EvictRequest, v1::EvictReply>& call);
  void Reservations(Call<v1::ReservationsRequest, v1::ReservationsReply>& call);
  void Disks(Call<v1::DisksRequest, v1::DisksReply>& call);
  void ListDisks(v1::DisksReply& reply) const;
  void DiskMain();

  Service service_;
  const std::vector<VolumeRole*> volumes_;
  const std::vector<std::string> patterns_;
  ConnectionGate& gate_;
  const PeerGuard& guard_;
  const AboutDaemon about_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread disk_thread_;
};

template <typename AnyCall>
void AdminService::AcceptKind(typename AnyCall::Ask ask, typename AnyCall::Handler handler,
                              CallQueue& queue) {
  AnyCall::Accept(
      service_, ask,
      [this, handler = std::move(handler)](AnyCall& call) {
        grpc::Status allowed = CheckRole(call.context());
        if (allowed.ok()) allowed = CheckProtocol(call.context());
        if (allowed.ok()) {
          gate_.Welcome(call.context().peer());
          handler(call);
        } else {
          call.Finish(allowed);
        }
      },
      queue);
}

template <typename AnyCall, typename Action>
void AdminService::OnVolume(AnyCall& call, Action action) {
  grpc::Status why;
  VolumeServer* const volume = Find(call.context(), call.request().volume(), &why);
  if (volume == nullptr) return call.Finish(why);
  const bool queued = volume->RunOnCore([volume, action](Core& core) { action(*volume, core); },
                                        [&call] { call.Finish(Stopping()); });
  if (!queued) call.Finish(Stopping());
}

template <typename AnyCall, typename Action>
void AdminService::OnDumps(AnyCall& call, Action action) {
  grpc::Status why;
  VolumeServer* const volume = Find(call.context(), call.request().volume(), &why);
  if (volume == nullptr) return call.Finish(why);
  action(volume->dumps());
}

template <typename AnyCall, typename Action>
void AdminService::OnDump(AnyCall& call, Action action) {
  const auto dump = Uuid::FromBytes(call.request().dump());
  if (!dump.ok()) {
    return call.Finish(
        grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "a dump is named by a UUID"));
  }
  OnDumps(call, [action, dump = *dump](DumpKeeper& dumps) { action(dumps, dump); });
}

template <typename AnyCall>
void AdminService::OnCore(AnyCall& call, void (*action)(VolumeServer&, Core&, AnyCall&)) {
  OnVolume(call, [&call, action](VolumeServer& volume, Core& core) {
    action(volume, core, call);
    call.Finish(grpc::Status::OK);
  });
}

}  // namespace reel::mdc
