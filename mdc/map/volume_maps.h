// The volume that a controller serves, as its map is now. A change puts another OpenVolume in the
// place of the last one, and shares its LUNs; earlier ones stay as they were for whoever still goes
// by them. Changes are an administrator's, so there are few.
// Threads: all methods may be called concurrently.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

class VolumeMaps {
 public:
  explicit VolumeMaps(std::unique_ptr<OpenVolume> first) { SetNow(Keep(std::move(first))); }

  // Valid as long as this object.
  OpenVolume& now() const {
    MutexLock lock(mutex_);
    return *now_;
  }
  // A map that may follow, or has come to nothing: it stays, for whoever goes by it already.
  OpenVolume& Keep(std::unique_ptr<OpenVolume> map) {
    MutexLock lock(mutex_);
    return *kept_.emplace_back(std::move(map));
  }
  // REQUIRES: kept here.
  void SetNow(OpenVolume& map) {
    MutexLock lock(mutex_);
    now_ = &map;
  }
  // The first one. REQUIRES: nobody goes by this object any more, and the map has not changed.
  std::unique_ptr<OpenVolume> TakeBack() {
    MutexLock lock(mutex_);
    return std::move(kept_.front());
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<OpenVolume>> kept_ ABSL_GUARDED_BY(mutex_);  // oldest first
  OpenVolume* now_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace reel::mdc
