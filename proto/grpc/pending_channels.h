// First connections that outlast the patience of who asked for them.
//
// Whoever has several controllers to try waits a short while for each. A controller to which
// hundreds of clients come at once may need longer for each one's TLS: were the connection given up
// and begun anew each time, nobody would ever get through. (gRPC would not even close it: a channel
// that is destroyed while it connects goes on until its deadline.) So it goes on, and the next try
// finds it. Invariants:
//   1. An address has one connection on its way, or one for each thread that asks at once.
//   2. One that has failed, or was begun ConnectMs ago, is begun anew, ready or not: of one that
//      nobody has used since, nobody knows whether its host is still there.
// Threads: any.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "volume/base/mutex.h"

namespace reel {

// A starved host may need that long for TLS. A host that is back is found up to four seconds later
// than by anew tries, as its SYNs (tcp(7)) are sent after 1, 3 and 7 s.
constexpr int ConnectMs() {
  return 10'000;
}

class PendingChannels {
 public:
  enum class State {
    kReady,      // `channel` is the caller's
    kRefused,    // nobody is there, or TLS failed
    kBegun,      // still on its way, since this call …
    kContinued,  // … and since an earlier one
  };
  struct Attempt {
    State state;
    std::shared_ptr<grpc::Channel> channel;  // kReady
  };
  // A channel to `address` with these arguments; ConnectMs is added to them.
  using Make = std::function<std::shared_ptr<grpc::Channel>(grpc::ChannelArguments& arguments)>;

  // Waits for `timeout` at most.
  Attempt Await(const std::string& address, std::chrono::milliseconds timeout, const Make& make);
  // Gives back a channel by which its host has just answered: the next one who asks has it.
  void GiveBack(const std::string& address, std::shared_ptr<grpc::Channel> channel);
  // Nobody is looked for any more.
  void Clear();

 private:
  struct Pending {
    std::shared_ptr<grpc::Channel> channel;  // null: there is none
    std::chrono::steady_clock::time_point begun;
  };
  Pending Take(const std::string& address);
  void Keep(const std::string& address, Pending pending);

  Mutex mutex_;
  std::map<std::string, Pending> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
