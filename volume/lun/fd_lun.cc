#include "volume/lun/fd_lun.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/lun/device_fault.h"
#include "volume/lun/uring.h"

namespace reel {

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

void FdLun::Start(LunRequest& request) {
  absl::Status status = CheckLunRange(*this, request.offset_bytes, request.length_bytes);
  if (request.kind == LunRequest::Kind::kWrite && status.ok()) status = CheckLunWritable(*this);
  if (!status.ok()) {
    request.Complete(std::move(status));
    return;
  }
  Uring::ForThisThread().Start({.fd = fd(), .device = facts_.device}, request);
}

absl::Status FdLun::Grow() {
  const auto now_bytes = SizeNow();
  if (now_bytes.ok()) size_bytes_ = std::max(size_bytes(), *now_bytes);
  return now_bytes.status();
}

absl::Status FdLun::Flush() {
  if (fdatasync(fd()) != 0) return Failed("flush", errno);
  return absl::OkStatus();
}

absl::Status FdLun::Failed(const char* what, int error) const {
  const std::string where = absl::StrCat(name(), ": ", what, ": ");
  const std::string text = absl::StrCat(where, std::generic_category().message(error));
  if (error == EOPNOTSUPP || error == ENOTTY || error == ENOSYS) {
    return absl::UnimplementedError(text);
  }
  if (!facts_.device) return absl::UnknownError(text);
  const absl::Status failure = DeviceFailure(error);
  return WithText(failure, absl::StrCat(where, failure.message()));
}

absl::Status OpenFailed(const std::string& name, int error) {
  const std::string text = std::generic_category().message(error);
  switch (error) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return absl::NotFoundError(
          absl::StrCat(name, ": ", text, "; check the path and that the LUN is connected"));
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(
          absl::StrCat(name, ": ", text, "; run as root or give this user access to it"));
    case EBUSY:
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": ", text, "; another program or a mount uses it"));
    default:
      return absl::UnknownError(absl::StrCat(name, ": cannot open: ", text));
  }
}

}  // namespace reel
