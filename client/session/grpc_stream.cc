// MdcStream over gRPC: the synchronous stream, one thread in Write and one in Read. The only client
// file that includes gRPC.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/mdc_stream.h"
#include "proto/grpc/grpc_tls.h"
#include "proto/grpc/pending_channels.h"
#include "proto/mdc.grpc.pb.h"
#include "proto/tls/tls_probe.h"
#include "proto/tls/watched_revocations.h"

namespace reel::client {
namespace {

constexpr int kMaxMessageBytes = 8 << 20;  // frames are at most 4 MiB
constexpr std::chrono::milliseconds kConnectTimeout{2000};
constexpr std::uint32_t kProbeTimeoutMs = 1000;
// The same, where there are other controllers to try.
constexpr std::chrono::milliseconds kShortConnectTimeout{700};
constexpr std::uint32_t kShortProbeTimeoutMs = 200;
constexpr std::chrono::milliseconds kWhereTimeout{500};
// A peer that vanished without closing its connections is noticed in that time, twice.
constexpr int kKeepaliveMs = 5000;

class GrpcStream : public MdcStream {
 public:
  // `revocations` null: without TLS.
  GrpcStream(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<const Revocations> revocations)
      : channel_(std::move(channel)),
        revocations_(std::move(revocations)),
        stub_(v1::Mdc::NewStub(channel_)),
        stream_(stub_->Session(&context_)) {}

  bool Send(const v1::ClientFrame& frame) override { return stream_->Write(frame); }
  // Nothing is believed of who is no controller, or whose certificate is revoked.
  bool Receive(v1::ServerFrame* frame) override {
    if (!stream_->Read(frame)) return false;
    if (!std::exchange(checked_, true)) {
      distrust_ = CheckController(*context_.auth_context(), revocations_.get());
    }
    if (distrust_.ok()) return true;
    frame->Clear();
    context_.TryCancel();
    return false;
  }
  void Cancel() override { context_.TryCancel(); }

  absl::Status Finish() override {
    const grpc::Status status = stream_->Finish();
    if (!distrust_.ok()) return distrust_;
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<const Revocations> revocations_;
  bool checked_ = false;  // of the receiving thread, as what it came to
  absl::Status distrust_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::Mdc::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
};

class GrpcConnector : public MdcConnector {
 public:
  GrpcConnector(std::shared_ptr<WatchedTls> tls, bool one_of_several)
      : tls_(std::move(tls)),
        list_(tls_ != nullptr ? WatchedRevocations::Load(tls_)
                              : std::unique_ptr<WatchedRevocations>()),
        connect_timeout_(one_of_several ? kShortConnectTimeout : kConnectTimeout),
        probe_timeout_ms_(one_of_several ? kShortProbeTimeoutMs : kProbeTimeoutMs) {}

  absl::StatusOr<std::unique_ptr<MdcStream>> Connect(const std::string& address) override {
    if (!list_.ok()) return absl::FailedPreconditionError(list_.status().message());
    const std::shared_ptr<const TlsMaterial> tls = Tls();
    PendingChannels::Attempt attempt = Await(address, connect_timeout_, tls.get());
    if (attempt.state == PendingChannels::State::kReady) {
      pending_.Clear();
      return std::make_unique<GrpcStream>(std::move(attempt.channel), Revoked());
    }
    // (A probe of one that is slow makes it slower, and tells nothing new.)
    if (attempt.state != PendingChannels::State::kContinued) {
      absl::Status found = ProbeMdc(address, tls.get(), probe_timeout_ms_);
      if (!found.ok()) return found;
    }
    return absl::UnavailableError(
        absl::StrCat("no connection within ", connect_timeout_.count(), " ms"));
  }

  absl::StatusOr<MdcPlace> Where(const std::string& address, const std::string& volume) override {
    const PendingChannels::Attempt attempt = Await(address, kWhereTimeout, Tls().get());
    if (attempt.state != PendingChannels::State::kReady) {
      return absl::UnavailableError("it does not answer");
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kWhereTimeout);
    v1::WhereRequest request;
    request.set_volume(volume);
    v1::WhereReply reply;
    const grpc::Status status = v1::Mdc::NewStub(attempt.channel)->Where(&context, request, &reply);
    if (!status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    if (!list_.ok()) return list_.status();
    const absl::Status believed = CheckController(*context.auth_context(), Revoked().get());
    if (!believed.ok()) return believed;
    pending_.GiveBack(address, attempt.channel);  // the stream is next, where it serves
    return MdcPlace{.here = reply.here(),
                    .epoch = reply.epoch(),
                    .address = reply.address(),
                    .volume = std::move(*reply.mutable_volume())};
  }

 private:
  std::shared_ptr<const TlsMaterial> Tls() const {
    return tls_ != nullptr ? tls_->Current() : nullptr;
  }
  std::shared_ptr<const Revocations> Revoked() const {
    return *list_ != nullptr ? (*list_)->Current() : nullptr;
  }
  PendingChannels::Attempt Await(const std::string& address, std::chrono::milliseconds timeout,
                                 const TlsMaterial* tls) {
    return pending_.Await(address, timeout, [&](grpc::ChannelArguments& arguments) {
      return NewChannel(address, tls, arguments);
    });
  }
  static std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                                   const TlsMaterial* tls,
                                                   grpc::ChannelArguments& arguments) {
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetMaxSendMessageSize(kMaxMessageBytes);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // A fixed window: gRPC estimates the bandwidth by a ping, and its answer, for every message.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kMaxMessageBytes);
    // A connection of its own for every attempt: none inherits another one's backoff.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A metadata LAN is never behind a web proxy, whatever the environment says.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(address, ChannelCredentialsOf(tls), arguments);
  }

  const std::shared_ptr<WatchedTls> tls_;
  const absl::StatusOr<std::unique_ptr<WatchedRevocations>> list_;  // null without TLS
  const std::chrono::milliseconds connect_timeout_;
  const std::uint32_t probe_timeout_ms_;
  PendingChannels pending_;
};

}  // namespace

std::unique_ptr<MdcConnector> MakeGrpcConnector(std::shared_ptr<WatchedTls> tls,
                                                bool one_of_several) {
  return std::make_unique<GrpcConnector>(std::move(tls), one_of_several);
}

}  // namespace reel::client
