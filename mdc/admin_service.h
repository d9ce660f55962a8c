// Administration over gRPC: unary calls, answered from the core threads (or, for Disks, from a
// thread that may wait for LUNs). With TLS, only to certificates with the role admin. Threads:
// calls come in on the call queue's.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mdc/call_queue.h"
#include "mdc/connection_gate.h"
#include "mdc/volume_server.h"
#include "proto/admin.grpc.pb.h"
#include "volume/mutex.h"

namespace reel::mdc {

class AdminService {
 public:
  // `patterns`: where Disks looks for LUNs. The servers and the gate outlive every call.
  AdminService(std::vector<VolumeServer*> volumes, std::vector<std::string> patterns,
               ConnectionGate& gate, bool tls);
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
  grpc::Status CheckRole(const grpc::ServerContext& context) const;
  VolumeServer* Find(const std::string& name) const;
  // Runs `action(volume, core)` on the core's seat, to answer the call; else answers it.
  template <typename AnyCall, typename Action>
  void OnVolume(AnyCall& call, Action action);
  // Answers the call with what `action` puts into its reply, on the core's seat.
  template <typename AnyCall>
  void OnCore(AnyCall& call, void (*action)(VolumeServer&, Core&, AnyCall&));
  void Volumes(v1::VolumesReply& reply) const;
  void Evict(Call<v1::EvictRequest, v1::EvictReply>& call);
  void Reservations(Call<v1::ReservationsRequest, v1::ReservationsReply>& call);
  void Disks(Call<v1::DisksRequest, v1::DisksReply>& call);
  void ListDisks(v1::DisksReply& reply) const;
  void DiskMain();

  Service service_;
  const std::vector<VolumeServer*> volumes_;
  const std::vector<std::string> patterns_;
  ConnectionGate& gate_;
  const bool tls_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread disk_thread_;
};

}  // namespace reel::mdc
