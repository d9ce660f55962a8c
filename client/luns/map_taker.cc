#include "client/luns/map_taker.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr std::chrono::milliseconds kRetry(2'000);

}  // namespace

void MapTaker::OnNewMap(VolumeDescriptor map) {
  parts_.paths.AnnounceMap(map.generation);
  MutexLock lock(mutex_);
  if (stopping_ || (wanted_ && wanted_->generation > map.generation)) return;
  wanted_ = std::move(map);
  if (!thread_.joinable()) thread_ = Thread([this] { Main(); });
  wake_.NotifyAll();
}

void MapTaker::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
}

bool MapTaker::Await(std::optional<VolumeDescriptor>& map, bool again) {
  MutexLock lock(mutex_);
  if (again && !wanted_ && !stopping_) {
    wake_.WaitFor(mutex_, kRetry);
  }
  while (!again && !wanted_ && !stopping_) wake_.Wait(mutex_);
  if (wanted_) map = std::exchange(wanted_, std::nullopt);
  return !stopping_;
}

void MapTaker::Main() {
  std::optional<VolumeDescriptor> map;
  std::string said;
  for (bool again = false; Await(map, again);) {
    const absl::Status status = Take(*map);
    again = !status.ok();
    parts_.session.TookMap(map->generation, status);
    if (!again) {
      spdlog::info("volume {}: its map of generation {} is in use here", map->name,
                   map->generation);
    } else if (said != status.message()) {
      spdlog::error("volume {}: its new map cannot be used yet, it is tried again: {}", map->name,
                    std::string(status.message()));
    }
    said = std::string(status.message());
  }
}

absl::Status MapTaker::Take(const VolumeDescriptor& map) {
  if (newest_->descriptor.generation < map.generation) {
    if (!open_more_) return absl::UnimplementedError("this mount cannot take another map");
    auto opened = open_more_(*newest_, map);
    if (!opened.ok()) return opened.status();
    volumes_.push_back(std::make_unique<OpenVolume>(*std::move(opened)));
    newest_ = volumes_.back().get();
  }
  const std::vector<std::uint32_t> luns = parts_.paths.TakeLuns(*newest_);
  if (absl::Status s = parts_.paths.AwaitUsable(luns); !s.ok()) return s;
  parts_.io.TakeMap(*newest_);
  parts_.paths.MapTaken(newest_->descriptor.generation);
  return absl::OkStatus();
}

}  // namespace reel::client
