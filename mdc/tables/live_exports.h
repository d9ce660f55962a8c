// The exports of a volume, as the configuration had them when it was read last: a controller that
// takes the volume over later goes by them, too. Threads: any.
#pragma once

#include <utility>
#include <vector>

#include "mdc/tables/exports.h"
#include "volume/base/mutex.h"

namespace reel::mdc {

class LiveExports {
 public:
  explicit LiveExports(std::vector<Export> exports) : exports_(std::move(exports)) {}
  std::vector<Export> Get() const {
    MutexLock lock(mutex_);
    return exports_;
  }
  void Set(std::vector<Export> exports) {
    MutexLock lock(mutex_);
    exports_ = std::move(exports);
  }

 private:
  mutable Mutex mutex_;
  std::vector<Export> exports_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::mdc
