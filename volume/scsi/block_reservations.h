// Reservations of a block device, which may be a multipath device.
//
// A registration is of a path. The kernel registers a key on all paths of a multipath device or on
// none, so that with one path lost no host could mount, and no controller take over; and it ends
// at the first path that has something to say, as all have when a reservation was released. Here
// those that answer are registered. One that does not is sent no key, so that none can land there
// later. When it comes back, what the kernel sends by it is refused as that of a fenced host,
// and whoever is refused mends the path: under a new key, by all that answer then
// (docs/failover.md).
//
// A registration is the host's, not the process's: so Register claims the device first, against all
// other processes and against the commands that they have left with the kernel
// (volume/scsi/block_lun.h). Where it is not to be had nothing is sent: kNotDone.
//
// A kernel can be asked for a device's keys only from 6.19 on, and Debian 12's headers cannot say
// so: an NVMe device, which takes no SCSI commands, therefore counts as one without reservations.
// Nothing else does but a device that says that it knows none: one that does not answer just now
// may have them, and would be used without a fence for as long as it is open.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/lun/reservation.h"
#include "volume/scsi/device_path.h"
#include "volume/scsi/lun_times.h"

namespace reel {

class BlockReservations final : public Reservations {
 public:
  using ClaimDevice = std::function<absl::Status()>;
  // Those of a multipath device, as they are now; empty: it is none.
  using PathsOfDevice = std::function<std::vector<DevicePath>()>;
  BlockReservations(DevicePath device, PathsOfDevice paths, ClaimDevice claim)
      : device_(std::move(device)), paths_(std::move(paths)), claim_(std::move(claim)) {}
  // Null when the device says that it has none that can be used. One that cannot say it just now is
  // asked for `patience`, as long as time may mend that; then, the error.
  static absl::StatusOr<std::unique_ptr<BlockReservations>> Find(
      DevicePath device, PathsOfDevice paths, ClaimDevice claim,
      std::chrono::milliseconds patience = std::chrono::milliseconds(kIscsiCommandTimeoutMs));

  absl::Status ClaimPath() override;
  ReservationResult Register(std::uint64_t key) override;
  ReservationResult Unregister(std::uint64_t key) override;
  ReservationResult Reserve(std::uint64_t key) override;
  ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) override;
  ReservationResult Clear(std::uint64_t key) override;
  absl::StatusOr<Registrations> ReadKeys() override;
  absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() override;
  ReservationResult ResetLun() override;

 private:
  struct Answering {
    std::vector<DevicePath> paths;
    std::size_t count = 0;  // of all
    absl::Status silent;    // not OK: another path does not answer
  };
  // Those that answer. An error: one does not that must, since a registration may have landed there
  // or since it can be mended soon; or none does.
  absl::StatusOr<Answering> LookForPaths();
  ReservationResult ChangeKey(const DevicePath& path, std::uint64_t from, std::uint64_t to);

  const DevicePath device_;
  const PathsOfDevice paths_;
  const ClaimDevice claim_;
  Mutex mutex_;
  // Paths with a registration whose outcome is unknown.
  std::set<std::string> in_doubt_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
