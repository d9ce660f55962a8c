// Takes the volume's map when it has changed, while files are read and written: opens the LUNs that
// came, registers on them, and tells the controller; or why it cannot yet, and tries on.
//
//   1 announce   requests that only a later map can carry out wait for it (LunPaths::AwaitMapAfter)
//   2 open       added LUNs are looked for where the mount's options say; LUNs that grew are grown
//   3 register   on those that have reservations, by the session's key
//   4 go by it   LunIo does; requests under way end by the map before
//   5 tell       MapTaken: the controller may place bytes there from now on
// Invariant: the controller is told only when requests of any thread reach all LUNs of the map.
// One map at a time, the newest that was told; a thread begins with the first.
// Threads: all methods may be called concurrently, but Begin before any other and Stop last.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/luns/lun_io.h"
#include "client/luns/lun_paths.h"
#include "client/session/session.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/format/lun_scan.h"

namespace reel::client {

// The volume by a later map; shares the LUNs of `open`.
using OpenMore = std::function<absl::StatusOr<OpenVolume>(const OpenVolume& open,
                                                          const VolumeDescriptor& later)>;

class MapTaker {
 public:
  struct Parts {
    Session& session;
    OpenVolume& volume;  // as it was mounted
    LunPaths& paths;
    LunIo& io;
  };
  // All of `parts` outlive it. Without `open_more` no map can be taken that adds LUNs.
  MapTaker(Parts parts, OpenMore open_more)
      : parts_(parts), open_more_(std::move(open_more)), newest_(&parts.volume) {}
  ~MapTaker() { Stop(); }
  MapTaker(const MapTaker&) = delete;
  MapTaker& operator=(const MapTaker&) = delete;

  // On the receiving thread, before what is placed by it; does not wait.
  void OnNewMap(VolumeDescriptor map);
  void Stop();

 private:
  void Main();
  // Waits for a map; or, with `again`, for another one, but not long. False: no more.
  bool Await(std::optional<VolumeDescriptor>& map, bool again);
  absl::Status Take(const VolumeDescriptor& map);

  const Parts parts_;
  const OpenMore open_more_;
  // Of the thread.
  OpenVolume* newest_;                                // that was opened
  std::vector<std::unique_ptr<OpenVolume>> volumes_;  // requests may go by each of them

  Mutex mutex_;
  CondVar wake_;
  std::optional<VolumeDescriptor> wanted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::client
