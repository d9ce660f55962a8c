// The open sockets of a server whose peers may be anybody: each is shut down when its time is over,
// or when the server stops, so that no thread waits for a peer for longer.
//
// Threads: all methods may be called concurrently.
#pragma once

#include <sys/socket.h>

#include <chrono>

#include "absl/container/flat_hash_map.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel {

class ConnectionTable {
 public:
  using Clock = std::chrono::steady_clock;
  explicit ConnectionTable(std::chrono::milliseconds time_of_each)
      : time_of_each_(time_of_each), reaper_([this] { Main(); }) {}
  ~ConnectionTable() {
    End();
    reaper_.Join();
  }

  // False: the server stops, and the socket is not kept. Else Remove comes before it is closed.
  bool Add(int socket) {
    MutexLock lock(mutex_);
    if (ended_) return false;
    until_[socket] = Clock::now() + time_of_each_;
    return true;
  }
  void Remove(int socket) {
    MutexLock lock(mutex_);
    until_.erase(socket);
  }
  // Shuts all of them down, and takes no more.
  void End() {
    MutexLock lock(mutex_);
    ended_ = true;
    for (const auto& [socket, until] : until_) (void)::shutdown(socket, SHUT_RDWR);
    changed_.NotifyAll();
  }

 private:
  static constexpr std::chrono::milliseconds kLook{500};
  void Main() {
    MutexLock lock(mutex_);
    while (!ended_) {
      changed_.WaitFor(mutex_, kLook);
      const Clock::time_point now = Clock::now();
      for (const auto& [socket, until] : until_) {
        if (until <= now) (void)::shutdown(socket, SHUT_RDWR);
      }
    }
  }

  const std::chrono::milliseconds time_of_each_;
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<int, Clock::time_point> until_ ABSL_GUARDED_BY(mutex_);
  Thread reaper_;
};

}  // namespace reel
