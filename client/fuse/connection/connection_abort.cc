#include "client/fuse/connection/connection_abort.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// The kernel's own numbers of devices, as its directories are named.
constexpr unsigned kMinorBits = 20;

absl::Status Refused(const char* what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the kernel's control of FUSE connections (fusectl): ", what, ": ", std::strerror(errno)));
}

// The root of the control file system; mounted nowhere, and gone with the descriptor.
absl::StatusOr<UniqueFd> ControlFileSystem() {
  const UniqueFd context(fsopen("fusectl", FSOPEN_CLOEXEC));
  if (!context.valid()) return Refused("fsopen");
  if (fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return Refused("fsconfig");
  }
  UniqueFd root(fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
  if (!root.valid()) return Refused("fsmount");
  return root;
}

// The device of what is seen there, by the kernel's own number; 0: nothing is.
std::uint32_t DeviceAt(const std::string& path) {
  struct statx seen {};
  if (statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &seen) != 0) return 0;
  return seen.stx_dev_major << kMinorBits | seen.stx_dev_minor;
}

}  // namespace

absl::StatusOr<ConnectionAbort> ConnectionAbort::Prepare(const std::string& mount_point) {
  absl::StatusOr<UniqueFd> control = ControlFileSystem();
  if (!control.ok()) return control.status();
  return ConnectionAbort(*std::move(control), DeviceAt(mount_point));
}

absl::Status ConnectionAbort::Attach(const std::string& mount_point) {
  const std::uint32_t device = DeviceAt(mount_point);
  if (device == before_) {
    return absl::FailedPreconditionError(absl::StrCat(mount_point, " was unmounted at once"));
  }
  const std::string name = absl::StrCat(device, "/abort");
  file_ = UniqueFd(openat(control_.get(), name.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file_.valid()) return Refused(name.c_str());
  control_ = UniqueFd();
  return absl::OkStatus();
}

void ConnectionAbort::Abort() const {
  if (file_.valid() && ::write(file_.get(), "1", 1) != 1) {
    spdlog::error("ending the FUSE connection: {}", std::strerror(errno));
  }
}

}  // namespace reel::client
