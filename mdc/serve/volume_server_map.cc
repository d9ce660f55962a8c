// A volume's server and the volume's map, which changes while it is served.
#include <chrono>
#include <utility>

#include "mdc/serve/volume_server.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {

void VolumeServer::WatchLuns() {
  OpenVolume& map = volume();
  std::vector<std::string> luns;
  for (std::size_t i = 0; i < map.luns.size(); ++i) luns.push_back(map.NameOf(i));
  std::shared_ptr<LunWatches> next(
      new LunWatches{.volume = map, .portals = PortalWatch(luns), .sizes = SizeWatch(map)});
  {
    MutexLock lock(watched_.mutex);
    watched_.now.swap(next);
  }
  // The ones before end here: what they ask a LUN is waited for, and never by the core.
  while (next != nullptr && next.use_count() > 1) SleepFor(std::chrono::milliseconds(1));
}

std::shared_ptr<const VolumeServer::LunWatches> VolumeServer::watches() const {
  MutexLock lock(watched_.mutex);
  return watched_.now;
}

// On the map keeper's thread.
void VolumeServer::OnNewMap() {
  store_->TakeMap(volume());
  WatchLuns();
  TakeOwnPool();
}

void VolumeServer::TakeOwnPool() {
  const auto run = store_->UnusedOfOwnPool(volume().descriptor);
  if (!run) return;
  workers_.Add([this, run = *run] {
    if (absl::Status s = store_->AddOwn(run); !s.ok()) {
      spdlog::error("volume {}: the metadata store does not take what its pool has gained: {}",
                    options_.volume, std::string(s.message()));
    }
  });
}

}  // namespace reel::mdc
