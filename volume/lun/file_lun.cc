#include "volume/lun/file_lun.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/types.h"

namespace reel {

absl::StatusOr<std::unique_ptr<Lun>> FileLun::Open(const std::string& path, LunAccess access) {
  const int mode = access == LunAccess::kReadOnly ? O_RDONLY : O_RDWR;
  UniqueFd fd(open(path.c_str(), mode | O_DIRECT | O_CLOEXEC));
  if (!fd.valid() && errno == EINVAL) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": its file system refuses direct I/O (O_DIRECT); keep image files on one "
                     "that has it, such as ext4 or XFS"));
  }
  if (!fd.valid()) return OpenFailed(path, errno);
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) return OpenFailed(path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file any more"));
  }
  return absl::WrapUnique(
      new FileLun({.name = path,
                   .size_bytes = RoundDown(static_cast<std::uint64_t>(facts.st_size), kIoAlignment),
                   .logical_block_bytes = kIoAlignment,
                   .read_only = access == LunAccess::kReadOnly},
                  std::move(fd)));
}

absl::StatusOr<std::uint64_t> FileLun::SizeNow() {
  struct stat facts {};
  if (fstat(fd(), &facts) != 0) return Failed("size", errno);
  return RoundDown(static_cast<std::uint64_t>(facts.st_size), kIoAlignment);
}

absl::Status FileLun::Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  if (absl::Status status = CheckLunRange(*this, offset_bytes, length_bytes); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckLunWritable(*this); !status.ok()) return status;
  if (fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_bytes),
                static_cast<off_t>(length_bytes)) != 0) {
    return Failed("discard", errno);
  }
  return absl::OkStatus();
}

absl::Status FileLun::ClaimForThisProcess() {
  if (flock(fd(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return Failed("claim", errno);
  return absl::FailedPreconditionError(
      absl::StrCat(name(), ": in use by another process of this host; stop it first"));
}

}  // namespace reel
