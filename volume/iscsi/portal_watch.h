// A thread that looks whether the portals by which LUNs are reached answer, also those that no path
// goes by now: a reserve that is not there has to be known before it is needed.
//
// It logs in by each and out again, every PortalWatchMs, and sends nothing to a LUN. A portal that
// answers anything, a refusal too, is there.
// Threads: all methods may be called concurrently.
#pragma once

#include <string>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/iscsi/iscsi_url.h"

namespace reel {

class PortalWatch {
 public:
  // `luns`: as OpenLun takes them. Only addresses of several portals are watched; where there are
  // none, nothing is done.
  explicit PortalWatch(const std::vector<std::string>& luns);
  // Waits for the login that is on its way.
  ~PortalWatch();
  PortalWatch(const PortalWatch&) = delete;
  PortalWatch& operator=(const PortalWatch&) = delete;

  // Looks at all of them now. It waits for them: PortalLoginMs each at most.
  void Look();
  // Those that did not answer at the last look, a line each that says what to do.
  std::vector<std::string> Lost() const;

 private:
  struct Watched {
    IscsiUrl url;  // of some LUN that it leads to
    std::string portal;
  };
  void Main();
  bool stopping() const;

  std::vector<Watched> watched_;
  Mutex looking_;  // one look at a time; it waits for portals, and mutex_ does not
  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<std::string> lost_ ABSL_GUARDED_BY(mutex_);  // portals
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel
