#include "proto/grpc/pending_channels.h"

#include <utility>

namespace reel {
namespace {

bool IsOnItsWay(grpc_connectivity_state state) {
  return state == GRPC_CHANNEL_CONNECTING || state == GRPC_CHANNEL_READY;
}

// Whether it is ready; it stops waiting at the first refusal, too.
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

}  // namespace

PendingChannels::Attempt PendingChannels::Await(const std::string& address,
                                                std::chrono::milliseconds timeout,
                                                const Make& make) {
  std::shared_ptr<grpc::Channel> channel = Take(address);
  const bool begins = channel == nullptr;
  if (begins) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, ConnectMs());  // which is its deadline
    channel = make(arguments);
  }
  if (ConnectsWithin(*channel, timeout)) return {State::kReady, std::move(channel)};
  if (!IsOnItsWay(channel->GetState(false))) return {State::kRefused, nullptr};
  Keep(address, std::move(channel));
  return {begins ? State::kBegun : State::kContinued, nullptr};
}

std::shared_ptr<grpc::Channel> PendingChannels::Take(const std::string& address) {
  MutexLock lock(mutex_);
  const auto found = pending_.find(address);
  if (found == pending_.end()) return nullptr;
  std::shared_ptr<grpc::Channel> channel = std::move(found->second);
  pending_.erase(found);
  return IsOnItsWay(channel->GetState(false)) ? channel : nullptr;
}

// Two threads may have tried at once: one connection is enough.
void PendingChannels::Keep(const std::string& address, std::shared_ptr<grpc::Channel> channel) {
  MutexLock lock(mutex_);
  pending_.try_emplace(address, std::move(channel));
}

}  // namespace reel
