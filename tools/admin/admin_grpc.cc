// AdminApi over gRPC.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <future>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/grpc/grpc_tls.h"
#include "proto/grpc/pending_channels.h"
#include "proto/protocol.h"
#include "proto/tls/tls_probe.h"
#include "tools/admin/admin_api.h"
#include "volume/base/thread.h"

namespace reel::tools {
namespace {

using google::protobuf::Message;

constexpr std::uint32_t kProbeTimeoutMs = 1000;
// By which a standby names the active controller, and how often that is believed for one question.
constexpr char kActiveTrailer[] = "reel-active";
constexpr char kStoppedTrailer[] = "reel-stopped";
constexpr int kMaxSentOn = 2;
constexpr char kService[] = "/reel.v1.Admin/";
// How long one controller of several is waited for, until the next one is asked.
constexpr std::chrono::milliseconds kConnectTimeout{700};
constexpr std::chrono::milliseconds kSeatPause{200};
using Deadline = std::chrono::steady_clock::time_point;

class GrpcAdmin final : public AdminApi {
 public:
  // `sends_on`: to whom a standby names, and to the others where one does not answer.
  GrpcAdmin(std::vector<std::string> mdcs, bool sends_on, std::uint32_t timeout_ms,
            std::optional<TlsMaterial> tls)
      : mdcs_(std::move(mdcs)),
        sends_on_(sends_on),
        timeout_ms_(timeout_ms),
        tls_(std::move(tls)) {}

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

  // By name, as the requests of all calls go the same way.
  static grpc::Status CallOn(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext& context, const std::string& method,
                             const Message& request, Message& reply) {
    const grpc::Slice asked(request.SerializeAsString());
    const grpc::ByteBuffer outgoing(&asked, 1);
    grpc::ByteBuffer incoming;
    std::promise<grpc::Status> done;
    grpc::GenericStub(channel).UnaryCall(
        &context, kService + method, {}, &outgoing, &incoming,
        [&done](grpc::Status status) { done.set_value(std::move(status)); });
    const grpc::Status status = done.get_future().get();
    grpc::Slice answered;
    if (!status.ok() || !incoming.DumpToSingleSlice(&answered).ok()) return status;
    return reply.ParseFromArray(answered.begin(), static_cast<int>(answered.size()))
               ? status
               : grpc::Status(grpc::StatusCode::INTERNAL, "the answer cannot be read");
  }

  // What a standby says of the active controller.
  struct Standby {
    std::string active;  // empty: it knows of none
    bool stopped = false;
  };
  // A client's certificate may be for the same host. (A call that reached nobody has no peer.)
  absl::Status CheckIsController(const grpc::ClientContext& context,
                                 const grpc::Status& status) const {
    if (!tls_) return absl::OkStatus();
    if (!status.ok() && !PeerOf(*context.auth_context()).ok()) return absl::OkStatus();
    return PeerWithRole(*context.auth_context(), TlsRole::kMdc, "serving volumes").status();
  }

  // What one controller says; `standby` is set where it is one.
  absl::Status AskOne(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                      const Message& request, Message& reply, std::optional<Standby>& standby) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms_));
    if (spoken_.newest >= 2) context.AddMetadata(kProtocolMetadata, EncodeProtocol(spoken_));
    const grpc::Status status = CallOn(channel, context, method, request, reply);
    if (absl::Status s = CheckIsController(context, status); !s.ok()) return s;
    if (absl::Status s = CheckProtocol(context, status); !s.ok()) return s;
    if (status.ok()) {
      pending_.GiveBack(mdc_, channel);
      return absl::OkStatus();
    }
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return Explain(status.error_message());
    }
    const auto& trailers = context.GetServerTrailingMetadata();
    if (const auto active = trailers.find(kActiveTrailer); active != trailers.end()) {
      standby = {.active = {active->second.data(), active->second.size()},
                 .stopped = trailers.contains(kStoppedTrailer)};
    }
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  // While a volume's seat changes hands, its standbys name nobody, or one that is dead: they are
  // asked again, as nothing was done.
  absl::Status Call(const std::string& method, const Message& request, Message& reply,
                    Repeat repeat) override {
    const Deadline until =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms_);
    for (;;) {
      bool seat_changes = false;
      absl::Status status = CallAny(method, request, reply, repeat, until, seat_changes);
      if (!seat_changes || std::chrono::steady_clock::now() + kSeatPause >= until) return status;
      SleepFor(kSeatPause);
    }
  }

  // `seat_changes`: standbys have answered, and no active controller was found.
  absl::Status CallAny(const std::string& method, const Message& request, Message& reply,
                       Repeat repeat, Deadline until, bool& seat_changes) {
    using State = PendingChannels::State;
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
      std::optional<Standby> standby;
      const absl::Status status = AskOne(attempt.channel, method, request, reply, standby);
      const bool lost = absl::IsUnavailable(status);
      const bool goes_on = sends_on_ && (lost ? repeat == Repeat::kYes : standby.has_value());
      seat_changes = !status.ok() && goes_on && (seat_changes || (standby && !standby->stopped));
      if (status.ok() || !goes_on) return status;
      // A standby knows more than one that says nothing.
      if (problem.ok() || standby) problem = status;
      if (standby && !standby->active.empty() && sent_on++ < kMaxSentOn) {
        left.insert(left.begin(), standby->active);
      }
    }
    return problem;
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
