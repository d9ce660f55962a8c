#include "proto/status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace reel {
namespace {

constexpr absl::string_view kErrnoPayload = "reelfs/errno";

// The one table. Several errno values share a code; the first of a code is what the code alone
// means.
struct Row {
  int errno_value;
  absl::StatusCode code;
};
constexpr Row kTable[] = {
    {EINTR, absl::StatusCode::kCancelled},
    {EIO, absl::StatusCode::kUnknown},
    {EINVAL, absl::StatusCode::kInvalidArgument},
    {ENAMETOOLONG, absl::StatusCode::kInvalidArgument},
    {ETIMEDOUT, absl::StatusCode::kDeadlineExceeded},
    {ENOENT, absl::StatusCode::kNotFound},
    {ENODATA, absl::StatusCode::kNotFound},
    {ENODEV, absl::StatusCode::kNotFound},
    {ENXIO, absl::StatusCode::kNotFound},
    {EEXIST, absl::StatusCode::kAlreadyExists},
    {EACCES, absl::StatusCode::kPermissionDenied},
    {EPERM, absl::StatusCode::kPermissionDenied},
    {EROFS, absl::StatusCode::kPermissionDenied},
    {ENOSPC, absl::StatusCode::kResourceExhausted},
    {EDQUOT, absl::StatusCode::kResourceExhausted},
    {EMLINK, absl::StatusCode::kResourceExhausted},
    {ENOMEM, absl::StatusCode::kResourceExhausted},
    {ENOBUFS, absl::StatusCode::kResourceExhausted},
    {EMFILE, absl::StatusCode::kResourceExhausted},
    {E2BIG, absl::StatusCode::kResourceExhausted},
    {EBUSY, absl::StatusCode::kFailedPrecondition},
    {ENOTDIR, absl::StatusCode::kFailedPrecondition},
    {EISDIR, absl::StatusCode::kFailedPrecondition},
    {ENOTEMPTY, absl::StatusCode::kFailedPrecondition},
    {ELOOP, absl::StatusCode::kFailedPrecondition},
    {EXDEV, absl::StatusCode::kFailedPrecondition},
    {ETXTBSY, absl::StatusCode::kFailedPrecondition},
    {EDEADLK, absl::StatusCode::kAborted},
    {ESTALE, absl::StatusCode::kAborted},
    {ERANGE, absl::StatusCode::kOutOfRange},
    {EFBIG, absl::StatusCode::kOutOfRange},
    {EOVERFLOW, absl::StatusCode::kOutOfRange},
    {EOPNOTSUPP, absl::StatusCode::kUnimplemented},
    {ENOSYS, absl::StatusCode::kUnimplemented},
    {EPROTONOSUPPORT, absl::StatusCode::kUnimplemented},
    {EIO, absl::StatusCode::kInternal},
    {EAGAIN, absl::StatusCode::kUnavailable},
    {ENOTCONN, absl::StatusCode::kUnavailable},
    {ECONNRESET, absl::StatusCode::kUnavailable},
    {EIO, absl::StatusCode::kDataLoss},
    {EACCES, absl::StatusCode::kUnauthenticated},
};

absl::StatusCode CodeOf(int errno_value) {
  for (const Row& row : kTable) {
    if (row.errno_value == errno_value) return row.code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

absl::Status ErrnoStatus(int errno_value, std::string_view message) {
  if (message.empty()) {
    const char* description = strerrordesc_np(errno_value);
    message = description != nullptr ? description : "unknown error";
  }
  absl::Status status(CodeOf(errno_value), absl::string_view(message.data(), message.size()));
  status.SetPayload(kErrnoPayload, absl::Cord(absl::StrCat(errno_value)));
  return status;
}

int ErrnoOf(const absl::Status& status) {
  if (status.ok()) return 0;
  if (const absl::optional<absl::Cord> payload = status.GetPayload(kErrnoPayload)) {
    int value = 0;
    // A payload from a peer is not trusted: only what is an errno value counts.
    if (absl::SimpleAtoi(std::string(*payload), &value) && value > 0 && value < 4096) return value;
  }
  for (const Row& row : kTable) {
    if (row.code == status.code()) return row.errno_value;
  }
  return EIO;
}

}  // namespace reel
