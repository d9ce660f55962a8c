// AdminApi over gRPC.
#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "proto/admin.grpc.pb.h"
#include "tools/admin_api.h"

namespace reel::tools {
namespace {

class GrpcAdmin final : public AdminApi {
 public:
  GrpcAdmin(const std::string& mdc, std::uint32_t timeout_ms)
      : mdc_(mdc),
        timeout_ms_(timeout_ms),
        stub_(v1::Admin::NewStub(grpc::CreateChannel(mdc, grpc::InsecureChannelCredentials()))) {}

  absl::StatusOr<v1::VolumesReply> Volumes() override {
    return Call<v1::VolumesReply>(&v1::Admin::Stub::Volumes, v1::VolumesRequest());
  }
  absl::StatusOr<v1::DisksReply> Disks() override {
    return Call<v1::DisksReply>(&v1::Admin::Stub::Disks, v1::DisksRequest());
  }
  absl::StatusOr<v1::ShowReply> Show(const std::string& volume) override {
    return OfVolume<v1::ShowReply, v1::ShowRequest>(&v1::Admin::Stub::Show, volume);
  }
  absl::StatusOr<v1::StatReply> Stat(const std::string& volume) override {
    return OfVolume<v1::StatReply, v1::StatRequest>(&v1::Admin::Stub::Stat, volume);
  }
  absl::StatusOr<v1::WhoReply> Who(const std::string& volume) override {
    return OfVolume<v1::WhoReply, v1::WhoRequest>(&v1::Admin::Stub::Who, volume);
  }

 private:
  template <typename Reply, typename Request>
  using Method = grpc::Status (v1::Admin::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(Method<Reply, Request> method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms_));
    Reply reply;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
    if (status.ok()) return reply;
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::UnavailableError(absl::StrCat("no answer from the MDC at ", mdc_, " (",
                                                 status.error_message(),
                                                 "); check that reel-mdcd runs there, or --mdc"));
    }
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> OfVolume(Method<Reply, Request> method, const std::string& volume) {
    Request request;
    request.set_volume(volume);
    return Call(method, request);
  }

  const std::string mdc_;
  const std::uint32_t timeout_ms_;
  const std::unique_ptr<v1::Admin::Stub> stub_;
};

}  // namespace

std::unique_ptr<AdminApi> ConnectAdmin(const std::string& mdc, std::uint32_t timeout_ms) {
  return std::make_unique<GrpcAdmin>(mdc, timeout_ms);
}

}  // namespace reel::tools
