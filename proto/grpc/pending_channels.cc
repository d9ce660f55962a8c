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
  Pending pending = Take(address);
  const bool begins = pending.channel == nullptr;
  if (begins) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, ConnectMs());  // which is its deadline
    pending = {make(arguments), std::chrono::steady_clock::now()};
  }
  if (ConnectsWithin(*pending.channel, timeout)) return {State::kReady, pending.channel};
  if (!IsOnItsWay(pending.channel->GetState(false))) return {State::kRefused, nullptr};
  Keep(address, std::move(pending));
  return {begins ? State::kBegun : State::kContinued, nullptr};
}

PendingChannels::Pending PendingChannels::Take(const std::string& address) {
  MutexLock lock(mutex_);
  const auto found = pending_.find(address);
  if (found == pending_.end()) return {};
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  const auto age = std::chrono::steady_clock::now() - pending.begun;
  const bool goes_on =
      age < std::chrono::milliseconds(ConnectMs()) && IsOnItsWay(pending.channel->GetState(false));
  return goes_on ? pending : Pending{};
}

void PendingChannels::Keep(const std::string& address, Pending pending) {
  MutexLock lock(mutex_);
  pending_.insert_or_assign(address, std::move(pending));
}

void PendingChannels::GiveBack(const std::string& address, std::shared_ptr<grpc::Channel> channel) {
  Keep(address, {std::move(channel), std::chrono::steady_clock::now()});
}

void PendingChannels::Clear() {
  MutexLock lock(mutex_);
  pending_.clear();
}

}  // namespace reel
