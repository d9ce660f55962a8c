// A LUN in a regular file, for the quickstart and tests. It cannot fence a host.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "volume/lun/fd_lun.h"

namespace reel {

class FileLun final : public FdLun {
 public:
  // The LUN's size is the file's at this moment, rounded down to 4 KiB.
  // INVALID_ARGUMENT when its file system has no direct I/O.
  static absl::StatusOr<std::unique_ptr<Lun>> Open(const std::string& path, LunAccess access);

  absl::StatusOr<std::uint64_t> SizeNow() override;
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override;
  absl::Status ClaimForThisProcess() override;

 private:
  using FdLun::FdLun;
};

}  // namespace reel
