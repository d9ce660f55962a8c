// TLS as gRPC takes it: credentials for both sides, and who the other side is.
// Threads: pure functions, but for OnFailedHandshake.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "proto/tls/revocations.h"
#include "proto/tls/tls.h"
#include "proto/tls/watched_tls.h"

namespace reel {

// Null: no TLS. Else the server demands a certificate of its authority from every client, and a
// client checks that the server's is for the host that it dialled. A server looks at its files
// again for each new connection. Its credentials are for one server, whose connections come one at
// a time (gRPC replaces what it makes of the files without a lock), and outlive it.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(std::shared_ptr<WatchedTls> tls);
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const TlsMaterial* tls);

// By the certificate of the connection. INVALID_ARGUMENT: none, or not one of ReelFS.
absl::StatusOr<TlsPeer> PeerOf(const grpc::AuthContext& context);
// Of this process's servers: called with the reason where a peer's TLS handshake fails, by a thread
// of gRPC. Nothing: nobody is told any more; returns when no call is under way.
void OnFailedHandshake(std::function<void(std::string_view why)> callback);
// Whether to believe what was dialled. PERMISSION_DENIED: its certificate is no controller's (a
// client's may be for the same host), or the list names it. Null: there is no TLS.
absl::Status CheckController(const grpc::AuthContext& context, const Revocations* revocations);
// PERMISSION_DENIED when the peer has another role.
absl::StatusOr<TlsPeer> PeerWithRole(const grpc::AuthContext& context, TlsRole role,
                                     std::string_view purpose);

}  // namespace reel
