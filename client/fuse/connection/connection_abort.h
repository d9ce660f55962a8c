// The kernel's switch that ends a FUSE connection at once: who waits for an answer gets an error,
// whether its request is being served, or was never read.
//
// A program that waits for an answer cannot be killed, and whoever drops its pages waits for it.
// The switch is a file of the control file system (Documentation/filesystems/fuse/fuse.rst), which
// names connections by a number that is given out again, and need not be mounted. So it is opened
// right after the mount, through an instance that is mounted nowhere: once open it belongs to that
// connection, and does nothing when that has ended. Threads: any, once attached.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class ConnectionAbort {
 public:
  // Before the mount. FAILED_PRECONDITION: this process may not (it takes CAP_SYS_ADMIN outside of
  // user namespaces).
  static absl::StatusOr<ConnectionAbort> Prepare(const std::string& mount_point);
  // Of what has been mounted there since; asks its server for nothing. FAILED_PRECONDITION: it is
  // there no more.
  absl::Status Attach(const std::string& mount_point);

  // Does nothing where it is not attached.
  void Abort() const;

 private:
  ConnectionAbort(UniqueFd control, std::uint32_t before)
      : control_(std::move(control)), before_(before) {}

  UniqueFd control_;  // the root of the control file system, until it is attached
  std::uint32_t before_;
  UniqueFd file_;
};

}  // namespace reel::client
