// Changes the map of a volume while it is served (docs/failover.md, "A map that grows").
//
//   1 choose    the LUNs are looked at, and the next descriptor is made; nothing is written
//   2 hold      this controller takes the reservations of added LUNs
//   3 label     added LUNs are cleared, and labelled as the volume's; flushed
//   4 seat      the descriptor is written to the seat LUN: from here on it is the volume's
//   5 copies    … and to all others; one that fails is an alarm, and is written again; labels of
//               LUNs that have gone name no volume any more
//   6 serve     the store, the watches and the core go by it; the core tells the sessions
//
// A controller that dies before 4 leaves the old map, and LUNs that are labelled and not used; one
// that dies later leaves the new map. Invariants:
//   1. The descriptor is written only while the seat's term holds. What is known of step 4 is that
//      it was done, or the process ends.
//   2. Core and store never know a map that the seat LUN does not hold.
// One change at a time, on a thread that begins with the first.
// Threads: all methods may be called concurrently, except that Stop comes last.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/map/core_call.h"
#include "mdc/map/lun_labels.h"
#include "mdc/map/new_luns.h"
#include "mdc/map/volume_maps.h"
#include "mdc/moves/restripe.h"
#include "proto/admin.pb.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class MapKeeper {
 public:
  static constexpr std::size_t kMaxJobs = 16;

  struct Served {
    VolumeMaps& maps;
    std::vector<std::string> patterns;  // where this controller looks for LUNs
    std::function<absl::Status()> may_write;
    // Takes the reservations of that map's LUNs, and lets go of others'; how long LUNs without any
    // may still execute what a session sent (CoreOptions::keyless_quarantine_ms).
    std::function<absl::StatusOr<std::uint64_t>(OpenVolume& volume)> hold;
    // `maps` has another one, which the seat LUN holds.
    std::function<void()> changed;
    RunOnCore run_on_core;
    // It is not known what the seat LUN holds: expected to end the process.
    std::function<void(const absl::Status&)> fail;
  };
  template <typename Reply>
  using Done = std::function<void(const absl::StatusOr<Reply>&)>;

  explicit MapKeeper(Served served) : served_(std::move(served)), labels_(served_.may_write) {}
  ~MapKeeper() { Stop(); }

  // `done` runs once, on the thread of this object or within the call. UNAVAILABLE: this controller
  // is stopping, or has too much of that to do.
  void Change(v1::ChangeMapRequest request, Done<v1::ChangeMapReply> done);
  // Nothing is allocated on stripe sets, or it is again: durably, when `done` runs. As above.
  // NOT_FOUND: no such pool or LUN.
  void CloseSpace(v1::CloseSpaceRequest request, Done<v1::CloseSpaceReply> done);
  // A slice of a pool is striped otherwise (mdc/moves/restripe.h); as above. REQUIRES: nobody has
  // anything of it, nor will.
  void Restripe(const RestripeOrder& order, std::function<void(const absl::Status&)> done);
  // Begins a job that lets another LUN take a LUN's place: it is looked at before, and added with
  // the first slice. Errors as Change's and Core::StartJob's.
  void Replace(v1::StartJobRequest request, Done<Core::ChangedJob> done);
  // Writes copies of the descriptor that are behind: a controller may have died before that.
  void CatchUp();
  void OnDurable(Sequence sequence);
  // What is wrong with copies; empty: nothing.
  std::string Alarm() const;
  // Ends what has not begun. REQUIRES: the core still runs.
  void Stop();

 private:
  using Job = std::function<void(const absl::Status& may)>;
  void Add(Job job);
  void Main();
  absl::StatusOr<v1::ChangeMapReply> DoChange(const v1::ChangeMapRequest& request);
  absl::StatusOr<Core::ChangedJob> DoReplace(const v1::StartJobRequest& request);
  absl::Status DoRestripe(RestripeOrder order);
  // The LUN that is to take that one's place, as it is now.
  absl::StatusOr<ChosenLun> ChooseReplacement(const OpenVolume& volume, const Replacement& instead,
                                              const std::string& old);
  absl::StatusOr<v1::CloseSpaceReply> DoCloseSpace(const v1::CloseSpaceRequest& request);
  // The next map is in force: of LUNs that are open, and of those added. Steps 2 to 6.
  absl::Status Install(OpenVolume& before, const VolumeDescriptor& map, OpenLuns opened,
                       const std::vector<ChosenLun>& added);
  absl::Status CheckClients(const v1::ChangeMapRequest& request);
  // Steps 2 and 3.
  absl::StatusOr<std::uint64_t> TakeLuns(OpenVolume& before, OpenVolume& next,
                                         const std::vector<ChosenLun>& added);
  absl::Status WriteSeat(const OpenVolume& next);
  void WriteCopies(const OpenVolume& next);

  const Served served_;
  const LunLabels labels_;
  mutable Mutex mutex_;
  CondVar wake_;    // jobs_
  CondVar synced_;  // durable_
  Sequence durable_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::string alarm_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
