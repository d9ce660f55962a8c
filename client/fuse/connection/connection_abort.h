// The kernel's switch that ends a FUSE connection at once: who waits for an answer gets an error,
// whether its request is being served, or was never read.
//
// A program that waits for an answer cannot be killed, and whoever drops its pages waits for it.
// The switch is a file of the control file system (Documentation/filesystems/fuse/fuse.rst), which
// names connections by a number that is given out again, and need not be mounted. So it is opened
// right after the mount, through an instance that is mounted nowhere: once open it belongs to that
// connection, and does nothing when that has ended. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class ConnectionAbort {
 public:
  // Of what is mounted on `mount_point`; asks its server for nothing. FAILED_PRECONDITION: this
  // process may not (it takes CAP_SYS_ADMIN outside of user namespaces).
  static absl::StatusOr<ConnectionAbort> Open(const std::string& mount_point);

  void Abort() const;

 private:
  explicit ConnectionAbort(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace reel::client
