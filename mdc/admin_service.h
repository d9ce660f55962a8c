// Administration over gRPC: unary calls, answered from the core threads (or, for Disks, from a
// thread that may wait for LUNs). Threads: gRPC's own.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "mdc/volume_server.h"
#include "proto/admin.grpc.pb.h"
#include "volume/mutex.h"

namespace reel::mdc {

class AdminService final : public v1::Admin::CallbackService {
 public:
  // `patterns`: where Disks looks for LUNs. The servers outlive every call.
  AdminService(std::vector<VolumeServer*> volumes, std::vector<std::string> patterns);
  ~AdminService() override;

  grpc::ServerUnaryReactor* Volumes(grpc::CallbackServerContext* context,
                                    const v1::VolumesRequest* request,
                                    v1::VolumesReply* reply) override;
  grpc::ServerUnaryReactor* Disks(grpc::CallbackServerContext* context,
                                  const v1::DisksRequest* request, v1::DisksReply* reply) override;
  grpc::ServerUnaryReactor* Show(grpc::CallbackServerContext* context,
                                 const v1::ShowRequest* request, v1::ShowReply* reply) override;
  grpc::ServerUnaryReactor* Stat(grpc::CallbackServerContext* context,
                                 const v1::StatRequest* request, v1::StatReply* reply) override;
  grpc::ServerUnaryReactor* Who(grpc::CallbackServerContext* context, const v1::WhoRequest* request,
                                v1::WhoReply* reply) override;

 private:
  static constexpr std::size_t kMaxWaiting = 16;

  VolumeServer* Find(const std::string& name) const;
  grpc::ServerUnaryReactor* OnCore(grpc::CallbackServerContext* context, const std::string& volume,
                                   std::function<void(VolumeServer&, const Core&)> describe);
  void ListDisks(v1::DisksReply& reply) const;
  void DiskMain();

  const std::vector<VolumeServer*> volumes_;
  const std::vector<std::string> patterns_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread disk_thread_;
};

}  // namespace reel::mdc
