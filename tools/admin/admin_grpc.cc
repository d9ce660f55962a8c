// AdminApi over gRPC.
#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/admin.grpc.pb.h"
#include "proto/grpc/grpc_tls.h"
#include "proto/grpc/pending_channels.h"
#include "proto/protocol.h"
#include "proto/tls/tls_probe.h"
#include "tools/admin/admin_api.h"

namespace reel::tools {
namespace {

constexpr std::uint32_t kProbeTimeoutMs = 1000;
// By which a standby names the active controller, and how often that is believed for one question.
constexpr char kActiveTrailer[] = "reel-active";
constexpr int kMaxSentOn = 2;
// How long one controller of several is waited for, until the next one is asked.
constexpr std::chrono::milliseconds kConnectTimeout{700};

// Whether a question may be asked of another controller when the answer of one was lost.
enum class Repeat { kYes, kNo };

class GrpcAdmin final : public AdminApi {
 public:
  // `sends_on`: to whom a standby names, and to the others where one does not answer.
  GrpcAdmin(std::vector<std::string> mdcs, bool sends_on, std::uint32_t timeout_ms,
            std::optional<TlsMaterial> tls)
      : mdcs_(std::move(mdcs)),
        sends_on_(sends_on),
        timeout_ms_(timeout_ms),
        tls_(std::move(tls)) {}

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
  absl::StatusOr<v1::FailReply> Fail(const v1::FailRequest& request) override {
    return Call<v1::FailReply>(&v1::Admin::Stub::Fail, request, Repeat::kNo);
  }
  absl::StatusOr<v1::StopReply> Stop(const std::string& volume) override {
    return OfVolume<v1::StopReply, v1::StopRequest>(&v1::Admin::Stub::Stop, volume, Repeat::kNo);
  }
  absl::StatusOr<v1::StartReply> Start(const std::string& volume) override {
    return OfVolume<v1::StartReply, v1::StartRequest>(&v1::Admin::Stub::Start, volume, Repeat::kNo);
  }
  absl::StatusOr<v1::MaintenanceReply> Maintenance(const v1::MaintenanceRequest& request) override {
    return Call<v1::MaintenanceReply>(&v1::Admin::Stub::Maintenance, request);
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

  absl::StatusOr<v1::BeginDumpReply> BeginDump(const std::string& volume) override {
    return OfVolume<v1::BeginDumpReply, v1::BeginDumpRequest>(&v1::Admin::Stub::BeginDump, volume,
                                                              Repeat::kNo);
  }
  absl::StatusOr<v1::ReadDumpReply> ReadDump(const v1::ReadDumpRequest& request) override {
    return Call<v1::ReadDumpReply>(&v1::Admin::Stub::ReadDump, request);
  }
  absl::StatusOr<v1::KeepDumpReply> KeepDump(const v1::KeepDumpRequest& request) override {
    return Call<v1::KeepDumpReply>(&v1::Admin::Stub::KeepDump, request);
  }
  absl::StatusOr<v1::ReleaseDumpReply> ReleaseDump(const std::string& volume) override {
    return OfVolume<v1::ReleaseDumpReply, v1::ReleaseDumpRequest>(&v1::Admin::Stub::ReleaseDump,
                                                                  volume);
  }

  std::vector<std::string> mdcs() const override { return mdcs_; }
  std::unique_ptr<AdminApi> At(const std::string& mdc) override {
    return std::make_unique<GrpcAdmin>(std::vector<std::string>{mdc}, /*sends_on=*/false,
                                       timeout_ms_, tls_);
  }
  std::vector<MdcAnswer> Everywhere() override {
    std::vector<MdcAnswer> answers;
    std::vector<std::string> known = mdcs_, seen;
    for (std::size_t i = 0; i < known.size() && i < kMaxAsked; ++i) {
      MdcAnswer answer{.address = known[i], .volumes = At(known[i])->Volumes()};
      if (answer.volumes.ok()) {
        const auto& volumes = answer.volumes->volumes();
        const std::string daemon = volumes.empty() ? "" : volumes[0].holder();
        // One daemon has several names.
        if (!daemon.empty() && absl::c_linear_search(seen, daemon)) continue;
        seen.push_back(daemon);
        for (const auto& volume : volumes) {
          if (!volume.active().empty() && !absl::c_linear_search(known, volume.active())) {
            known.push_back(volume.active());
          }
        }
      }
      answers.push_back(std::move(answer));
    }
    return answers;
  }

 private:
  static constexpr std::size_t kMaxAsked = 16;
  template <typename Reply, typename Request>
  using Method = grpc::Status (v1::Admin::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  std::shared_ptr<grpc::Channel> NewChannel(const std::string& mdc,
                                            grpc::ChannelArguments& arguments) const {
    // A metadata LAN is never behind a web proxy, whatever the environment says.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // A connection of its own for each: none inherits another one's backoff.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(mdc, ChannelCredentialsOf(tls_ ? &*tls_ : nullptr), arguments);
  }

  PendingChannels::Attempt Dial(const std::string& mdc) {
    mdc_ = mdc;
    const auto timeout =
        mdcs_.size() > 1 ? kConnectTimeout : std::chrono::milliseconds(timeout_ms_);
    return pending_.Await(mdc, timeout, [&](grpc::ChannelArguments& arguments) {
      return NewChannel(mdc, arguments);
    });
  }

  // The one that answered last goes first.
  std::vector<std::string> InOrder() const {
    std::vector<std::string> order;
    if (!mdc_.empty()) order.push_back(mdc_);
    for (const std::string& mdc : mdcs_) {
      if (mdc != mdc_) order.push_back(mdc);
    }
    return order;
  }

  // What one controller says; `*next` is whom it names instead, and empty where a standby knows of
  // nobody.
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(const std::shared_ptr<grpc::Channel>& channel,
                            Method<Reply, Request> method, const Request& request,
                            std::optional<std::string>* next) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms_));
    if (spoken_.newest >= 2) context.AddMetadata(kProtocolMetadata, EncodeProtocol(spoken_));
    Reply reply;
    const auto stub = v1::Admin::NewStub(channel);
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    if (absl::Status s = CheckProtocol(context, status); !s.ok()) return s;
    if (status.ok()) {
      pending_.GiveBack(mdc_, channel);
      return reply;
    }
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return Explain(status.error_message());
    }
    const auto& trailers = context.GetServerTrailingMetadata();
    if (const auto active = trailers.find(kActiveTrailer); active != trailers.end()) {
      *next = std::string(active->second.data(), active->second.size());
    }
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(Method<Reply, Request> method, const Request& request,
                             Repeat repeat = Repeat::kYes) {
    using State = PendingChannels::State;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms_);
    std::vector<std::string> left = InOrder(), asked;
    absl::Status problem;
    for (int sent_on = 0; !left.empty();) {
      const std::string mdc = left.front();
      left.erase(left.begin());
      if (absl::c_linear_search(asked, mdc)) continue;
      const PendingChannels::Attempt attempt = Dial(mdc);
      if (attempt.state != State::kReady) {
        if (problem.ok()) problem = Explain("no connection");
        // One that is slow is asked again when the others have been.
        const bool on_its_way =
            attempt.state != State::kRefused && std::chrono::steady_clock::now() < until;
        (on_its_way ? left : asked).push_back(mdc);
        continue;
      }
      asked.push_back(mdc);
      std::optional<std::string> next;
      auto reply = Ask(attempt.channel, method, request, &next);
      if (reply.ok()) return reply;
      const bool lost = absl::IsUnavailable(reply.status());
      if (!sends_on_ || !(lost || next) || (lost && repeat == Repeat::kNo)) return reply;
      // A standby knows more than one that says nothing.
      if (problem.ok() || next) problem = reply.status();
      if (next && !next->empty() && sent_on++ < kMaxSentOn) left.insert(left.begin(), *next);
    }
    return problem;
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> OfVolume(Method<Reply, Request> method, const std::string& volume,
                                 Repeat repeat = Repeat::kYes) {
    Request request;
    request.set_volume(volume);
    return Call(method, request, repeat);
  }

  // Of an answer: whether its program speaks a version that this one does.
  absl::Status CheckProtocol(const grpc::ClientContext& context, const grpc::Status& status) const {
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::OkStatus();  // of nobody, perhaps
    }
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto said = trailers.find(kProtocolMetadata);
    ProtocolRange theirs;
    if (said != trailers.end()) theirs = DecodeProtocol({said->second.data(), said->second.size()});
    const std::string mdcd = absl::StrCat("reel-mdcd at ", mdc_);
    const auto common = CommonProtocol({"this reeladm", spoken_}, {mdcd, theirs});
    if (!common.ok()) return common.status();
    if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED || !status.error_message().empty()) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat(mdcd, " speaks protocol ", ProtocolText(theirs),
                                                 ", which lacks this command; upgrade ", mdcd));
  }

  absl::Status Explain(const std::string& what) const {
    const absl::Status found = ProbeMdc(mdc_, tls_ ? &*tls_ : nullptr, kProbeTimeoutMs);
    if (!found.ok()) {
      return absl::Status(found.code(), absl::StrCat("the MDC at ", mdc_, ": ", found.message()));
    }
    return absl::UnavailableError(absl::StrCat("no answer from the MDC at ", mdc_, " (", what,
                                               "); check that reel-mdcd runs there, or --mdc"));
  }

  const std::vector<std::string> mdcs_;
  const bool sends_on_;
  const ProtocolRange spoken_ = SpokenProtocol();
  const std::uint32_t timeout_ms_;
  const std::optional<TlsMaterial> tls_;
  std::string mdc_;  // that is asked now
  PendingChannels pending_;
};

}  // namespace

std::unique_ptr<AdminApi> ConnectAdmin(std::vector<std::string> mdcs, std::uint32_t timeout_ms,
                                       std::optional<TlsMaterial> tls) {
  return std::make_unique<GrpcAdmin>(std::move(mdcs), /*sends_on=*/true, timeout_ms,
                                     std::move(tls));
}

}  // namespace reel::tools
