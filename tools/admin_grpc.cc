// AdminApi over gRPC.
#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "proto/admin.grpc.pb.h"
#include "proto/grpc_tls.h"
#include "proto/tls_probe.h"
#include "tools/admin_api.h"

namespace reel::tools {
namespace {

constexpr std::uint32_t kProbeTimeoutMs = 1000;

class GrpcAdmin final : public AdminApi {
 public:
  GrpcAdmin(const std::string& mdc, std::uint32_t timeout_ms, std::optional<TlsMaterial> tls)
      : mdc_(mdc), timeout_ms_(timeout_ms), tls_(std::move(tls)) {
    grpc::ChannelArguments arguments;
    // A metadata LAN is never behind a web proxy, whatever the environment says.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ =
        v1::Admin::NewStub(grpc::CreateCustomChannel(mdc, ChannelCredentialsOf(tls_), arguments));
  }

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
  absl::StatusOr<v1::EvictReply> Evict(const v1::EvictRequest& request) override {
    return Call<v1::EvictReply>(&v1::Admin::Stub::Evict, request);
  }
  absl::StatusOr<v1::ReservationsReply> Reservations(const std::string& volume) override {
    return OfVolume<v1::ReservationsReply, v1::ReservationsRequest>(&v1::Admin::Stub::Reservations,
                                                                    volume);
  }
  absl::StatusOr<v1::LocksReply> Locks(const std::string& volume) override {
    return OfVolume<v1::LocksReply, v1::LocksRequest>(&v1::Admin::Stub::Locks, volume);
  }
  absl::StatusOr<v1::LocksReply> BreakLocks(const v1::BreakLocksRequest& request) override {
    return Call<v1::LocksReply>(&v1::Admin::Stub::BreakLocks, request);
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
      return Explain(status.error_message());
    }
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> OfVolume(Method<Reply, Request> method, const std::string& volume) {
    Request request;
    request.set_volume(volume);
    return Call(method, request);
  }

  absl::Status Explain(const std::string& what) const {
    const absl::Status found = ProbeMdc(mdc_, tls_ ? &*tls_ : nullptr, kProbeTimeoutMs);
    if (!found.ok()) {
      return absl::Status(found.code(), absl::StrCat("the MDC at ", mdc_, ": ", found.message()));
    }
    return absl::UnavailableError(absl::StrCat("no answer from the MDC at ", mdc_, " (", what,
                                               "); check that reel-mdcd runs there, or --mdc"));
  }

  const std::string mdc_;
  const std::uint32_t timeout_ms_;
  const std::optional<TlsMaterial> tls_;
  std::unique_ptr<v1::Admin::Stub> stub_;
};

}  // namespace

std::unique_ptr<AdminApi> ConnectAdmin(const std::string& mdc, std::uint32_t timeout_ms,
                                       std::optional<TlsMaterial> tls) {
  return std::make_unique<GrpcAdmin>(mdc, timeout_ms, std::move(tls));
}

}  // namespace reel::tools
