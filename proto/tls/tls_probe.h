// Why a connection to a metadata controller did not come about: connects once more, by hand, and
// says in one line what gRPC keeps to itself (nobody listens, the wrong authority, a certificate
// for other hosts, a peer that refuses ours, TLS on one side only). Threads: pure; waits for the
// network.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/tls/tls.h"

namespace reel {

// `tls` null: without TLS. Takes some `timeout_ms` at most for each of its few steps. UNAVAILABLE:
// nobody is reached, which may change; FAILED_PRECONDITION: what only a person can change. OK:
// nothing was found wrong.
absl::Status ProbeMdc(const std::string& address, const TlsMaterial* tls, std::uint32_t timeout_ms);

}  // namespace reel
