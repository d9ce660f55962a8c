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

}  // namespace

absl::StatusOr<ConnectionAbort> ConnectionAbort::Open(const std::string& mount_point) {
  struct statx root {};
  if (statx(AT_FDCWD, mount_point.c_str(), AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &root) != 0) {
    return Refused("statx");
  }
  const absl::StatusOr<UniqueFd> control = ControlFileSystem();
  if (!control.ok()) return control.status();
  const std::string name =
      absl::StrCat(root.stx_dev_major << kMinorBits | root.stx_dev_minor, "/abort");
  UniqueFd file(openat(control->get(), name.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return Refused(name.c_str());
  return ConnectionAbort(std::move(file));
}

void ConnectionAbort::Abort() const {
  if (::write(file_.get(), "1", 1) != 1) {
    spdlog::error("ending the FUSE connection: {}", std::strerror(errno));
  }
}

}  // namespace reel::client
