// The controller's door: accepts connections, hands them on, and ends those that do not say who
// they are.
//
// gRPC by itself accepts without bound, and for good no longer once the process was out of
// descriptors; one host that opens connections and says nothing would be the end of the service.
// Invariants:
//   1. There are at most `most` connections, and at most `most_unknown` that are not welcome yet.
//   2. One that is not welcomed within `unknown_ms` is ended.
//   3. When a connection comes and there are as many unknown ones as may be, the oldest of them
//      makes room: a flood shuts out nobody who says Hello at once.
// Of each connection a duplicate of its descriptor is kept, by which its end is seen, and by which
// it can be ended. Threads: Welcome may be called by any; the rest by one, and Start's `take` is
// called on the gate's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "mdc/base/log_limit.h"
#include "volume/base/mutex.h"
#include "volume/lun/fd_lun.h"

namespace reel::mdc {

class ConnectionGate {
 public:
  struct Options {
    std::size_t most = 8192;
    std::size_t most_unknown = 1024;
    std::uint64_t unknown_ms = 30'000;  // a starved host may need ten for TLS
  };
  // Listens at HOST:PORT (0: any port). The bounds are lowered to what the process's limit of
  // descriptors allows. UNAVAILABLE: the address cannot be had.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const std::string& address,
                                                                Options options);
  ~ConnectionGate() { Stop(); }

  int port() const { return port_; }
  const Options& options() const { return options_; }
  // From now on, accepts; `take` owns what it is given, and shuts a socket down before closing it.
  void Start(std::function<void(int fd)> take);
  // The connection's peer (as gRPC names it: "ipv4:10.0.0.7:40123") has said who it is.
  void Welcome(std::string_view peer);
  // A peer was refused for its certificate: with its name, after it said who it is (the log has
  // been told), or, for one that comes no further than TLS, with the reason alone.
  void CountRefused();
  void RefusedByTls(std::string_view why);
  std::uint64_t refused() const;
  // Accepts no more. Connections go on.
  void Stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Connection {
    UniqueFd fd;  // the duplicate
    std::string peer;
    Time ends;  // unless it is welcomed before
    bool known = false;
  };
  using Place = std::list<Connection>::iterator;

  explicit ConnectionGate(Options options) : options_(options) {}
  absl::Status Bind(const std::string& host, const std::string& port);
  void Main();
  void AcceptAll(int listener);
  void Admit(UniqueFd fd);
  void EndOverdue(Time now);
  void End(Place place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Place place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that are not welcome yet, the newest first, for people.
  std::string Unknown() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Options options_;
  int port_ = 0;
  std::vector<UniqueFd> listeners_;
  UniqueFd epoll_;
  UniqueFd stop_;  // an eventfd
  std::function<void(int)> take_;
  std::thread thread_;

  mutable Mutex mutex_;
  std::list<Connection> unknown_ ABSL_GUARDED_BY(mutex_);  // in the order in which they came
  std::list<Connection> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Place> by_peer_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;  // since it was last told
  std::string last_ended_ ABSL_GUARDED_BY(mutex_);
  Time reported_ ABSL_GUARDED_BY(mutex_);
  std::string last_gone_ ABSL_GUARDED_BY(mutex_);  // of itself, and was not welcome yet
  std::uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  LogLimit refusals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::mdc
