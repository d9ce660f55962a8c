// A gRPC channel's first connection. Threads: any.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>

namespace reel {

// False at the first refusal, or when the time is up.
bool ConnectsWithin(grpc::Channel& channel, std::chrono::milliseconds timeout);

}  // namespace reel
