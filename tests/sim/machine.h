// One client of the simulated cluster: the real client's parts from the session to the file system,
// wired as the mount wires them, with a model of the kernel's page cache in place of FUSE.
// Threads: fibers of its host.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "client/event_router.h"
#include "client/vfs.h"
#include "tests/sim/luns.h"
#include "tests/sim/network.h"
#include "tests/sim/page_cache.h"

namespace reel::sim {

// A host's clock: another time than the controller's, and a little faster or slower.
class HostClock final : public Clock {
 public:
  HostClock(const Scheduler& scheduler, Random& random)
      : scheduler_(scheduler),
        offset_ms_(random.Below(1'000'000)),
        per_mille_(random.Between(kSlowest, kFastest)) {}
  std::uint64_t NowMs() const override {
    return offset_ms_ + scheduler_.now() * per_mille_ / (1000 * kMs);
  }
  WallTime WallNow() const override { return scheduler_.WallNow(); }

 private:
  static constexpr std::uint64_t kSlowest = 980, kFastest = 1020;
  const Scheduler& scheduler_;
  const std::uint64_t offset_ms_;
  const std::uint64_t per_mille_;
};

class Machine {
 public:
  Machine(int host, Scheduler& scheduler, Network& network, std::vector<Disk*> disks)
      : host_(host),
        scheduler_(scheduler),
        clock_(scheduler, scheduler.random()),
        connector_(network.ConnectorOf(host)),
        disks_(std::move(disks)) {}

  // Registers, until a controller answers; gives up after a while.
  bool Start();
  // As an unmount.
  void Stop();

  int host() const { return host_; }
  client::Vfs& vfs() { return *vfs_; }
  client::FileData& data() { return *data_; }
  client::FileLocks& locks() { return locks_; }
  client::Session* session() { return session_.get(); }
  PageCache& pages() { return pages_; }
  Path::Weather& weather() { return weather_; }
  // Told when the client has noticed that its session is over, and has let go of all it held.
  void SetOnNoticed(std::function<void()> on_noticed) { on_noticed_ = std::move(on_noticed); }

 private:
  const int host_;
  Scheduler& scheduler_;
  const HostClock clock_;
  const std::unique_ptr<client::MdcConnector> connector_;
  const std::vector<Disk*> disks_;
  Path::Weather weather_;
  PageCache pages_;
  std::unique_ptr<client::FileData> data_;
  client::NameCache names_;
  client::FileLocks locks_;
  std::function<void()> on_noticed_;
  std::unique_ptr<client::SessionEvents> events_;
  std::unique_ptr<client::Session> session_;
  OpenVolume volume_;
  std::unique_ptr<client::Vfs> vfs_;
};

}  // namespace reel::sim
