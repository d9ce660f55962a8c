// How a standby reaches the controller that it watches: unary calls, on one connection that stays.
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "mdc/seat/peer_signs.h"
#include "proto/peers.grpc.pb.h"
#include "proto/tls/watched_tls.h"

namespace reel::mdc {

class GrpcPeers final : public PeerPort {
 public:
  // `tls` null: without TLS.
  explicit GrpcPeers(std::shared_ptr<WatchedTls> tls) : tls_(std::move(tls)) {}

  PeerAnswer Ask(const std::string& address, const std::string& volume,
                 std::uint64_t wait_ms) override;

 private:
  void Connect(const std::string& address);

  const std::shared_ptr<WatchedTls> tls_;
  std::string address_;                          // that there is a connection to, ...
  std::shared_ptr<const TlsMaterial> material_;  // ... with that
  std::unique_ptr<v1::Peers::Stub> stub_;
};

}  // namespace reel::mdc
