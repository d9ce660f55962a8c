#include "mdc/rpc/grpc_server.h"

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "proto/grpc/grpc_tls.h"

namespace reel::mdc {
namespace {

// A client whose host is gone is noticed by its lease; this only frees the connection.
constexpr int kKeepaliveMs = 10'000;
constexpr std::chrono::milliseconds kStopWait(500);
// Of one connection: a workstation's mounts have one each, benchmarks many in one process.
constexpr int kMaxStreams = 1024;
// Without any stream.
constexpr int kMaxIdleMs = 60'000;

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const std::string& listen, std::vector<VolumeRole*> volumes,
    std::vector<std::string> lun_patterns, std::shared_ptr<WatchedTls> tls,
    const ConnectionGate::Options& connections, AboutDaemon about) {
  auto gate = ConnectionGate::Listen(listen, connections);
  if (!gate.ok()) return gate.status();
  auto guard = PeerGuard::Open(tls);
  if (!guard.ok()) return guard.status();
  auto server =
      absl::WrapUnique(new GrpcServer(*std::move(gate), *std::move(guard), std::move(volumes),
                                      std::move(lun_patterns), std::move(about)));
  server->credentials_ = ServerCredentialsOf(std::move(tls));
  grpc::ServerBuilder builder;
  const std::shared_ptr acceptor(builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      server->credentials_));
  builder.RegisterService(server->sessions_.grpc());
  builder.RegisterService(server->admin_.grpc());
  builder.RegisterService(server->peers_.grpc());
  server->queue_ = std::make_unique<CallQueue>(builder.AddCompletionQueue());
  builder.SetMaxReceiveMessageSize(kMaxFrameBytes);
  builder.SetMaxSendMessageSize(kMaxFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Clients send keepalives of their own, oftener than gRPC likes by itself.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // A fixed window: gRPC's estimate of the bandwidth costs a ping and its answer for every message.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kMaxFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxIdleMs);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC does not start");
  OnFailedHandshake(
      [gate = server->gate_.get()](std::string_view why) { gate->RefusedByTls(why); });
  server->queue_->Start();
  server->sessions_.Accept(*server->queue_);
  server->admin_.Accept(*server->queue_);
  server->peers_.Accept(*server->queue_);
  server->gate_->Start([acceptor](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
  return server;
}

GrpcServer::~GrpcServer() {
  Stop();
}

void GrpcServer::Stop() {
  if (server_ == nullptr) return;
  gate_->Stop();
  admin_.Stop();
  server_->Shutdown(std::chrono::system_clock::now() + kStopWait);
  server_->Wait();
  queue_->Stop();
  server_.reset();
  OnFailedHandshake(nullptr);
}

}  // namespace reel::mdc
