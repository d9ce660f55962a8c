#include "proto/grpc/grpc_channel.h"

namespace reel {

bool ConnectsWithin(grpc::Channel& channel, std::chrono::milliseconds timeout) {
  const auto until = std::chrono::system_clock::now() + timeout;
  for (grpc_connectivity_state state = channel.GetState(true); state != GRPC_CHANNEL_READY;
       state = channel.GetState(true)) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN ||
        !channel.WaitForStateChange(state, until)) {
      return false;
    }
  }
  return true;
}

}  // namespace reel
