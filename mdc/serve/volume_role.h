// What this daemon is to one volume: its active controller, or a standby that knows who that is.
//
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "proto/protocol.h"
#include "volume/base/mutex.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"

namespace reel::mdc {

class VolumeServer;

class VolumeRole {
 public:
  struct Active {
    Epoch epoch;          // 0: nobody, as far as is known
    std::string address;  // HOST:PORT for clients
    std::string host;     // its name
    ProtocolRange protocol{};
    std::string program{};  // its release; empty: not known
    bool stopped = false;
    bool maintenance = false;
  };
  explicit VolumeRole(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  // Null while others serve it. Once there, it stays until the daemon's services are stopped.
  VolumeServer* server() const { return server_.load(std::memory_order_acquire); }
  Active active() const {
    MutexLock lock(mutex_);
    return active_;
  }
  Uuid volume() const {
    MutexLock lock(mutex_);
    return volume_;
  }

  // This process, as the seat names its holder. Before the services start.
  void SetHolder(const Uuid& holder) { holder_ = holder; }
  const Uuid& holder() const { return holder_; }

  void Know(const Uuid& volume, Active active) {
    MutexLock lock(mutex_);
    volume_ = volume;
    active_ = std::move(active);
  }
  // `server` outlives the services that ask for it.
  void Serve(VolumeServer& server) { server_.store(&server, std::memory_order_release); }

 private:
  const std::string name_;
  Uuid holder_;
  std::atomic<VolumeServer*> server_{nullptr};
  mutable Mutex mutex_;
  Uuid volume_ ABSL_GUARDED_BY(mutex_);
  Active active_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::mdc
