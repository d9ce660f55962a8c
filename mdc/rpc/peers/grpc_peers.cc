#include "mdc/rpc/peers/grpc_peers.h"

#include <chrono>

#include "proto/grpc/grpc_tls.h"

namespace reel::mdc {
namespace {

// One that was killed is back in a moment.
constexpr int kShortestRetryMs = 100;
constexpr int kLongestRetryMs = 1'000;
constexpr int kConnectMs = 5'000;

PeerFailure FailureOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return PeerFailure::kBroken;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return PeerFailure::kSilent;
    default:
      return PeerFailure::kRefused;
  }
}

}  // namespace

void GrpcPeers::Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kShortestRetryMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestRetryMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);  // which is its deadline
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  stub_ = v1::Peers::NewStub(
      grpc::CreateCustomChannel(address, ChannelCredentialsOf(material_.get()), arguments));
  address_ = address;
}

PeerAnswer GrpcPeers::Ask(const std::string& address, const std::string& volume,
                          std::uint64_t wait_ms) {
  const auto material = tls_ != nullptr ? tls_->Current() : nullptr;
  if (address != address_ || material != material_) {
    material_ = material;
    Connect(address);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(wait_ms));
  v1::WatchRequest request;
  request.set_volume(volume);
  v1::WatchReply reply;
  const grpc::Status status = stub_->Watch(&context, request, &reply);
  if (!status.ok()) return {.failure = FailureOf(status)};
  // A client's certificate is of the same authority, and might be for the same host.
  if (tls_ != nullptr &&
      !PeerWithRole(*context.auth_context(), TlsRole::kMdc, "being watched").ok()) {
    return {};
  }
  const auto holder = Uuid::FromBytes(reply.holder());
  if (!holder.ok()) return {};
  return {.said = PeerSaid{.promise = {.holder = *holder,
                                       .epoch = Epoch(reply.epoch()),
                                       .answer_ms = reply.answer_ms(),
                                       .beat_ms = reply.beat_ms(),
                                       .for_ms = reply.promise_ms()},
                           .beat_age_ms = reply.beat_age_ms()}};
}

}  // namespace reel::mdc
