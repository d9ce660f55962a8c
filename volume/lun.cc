#include "volume/lun.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "volume/block_lun.h"
#include "volume/file_lun.h"
#include "volume/io_batch.h"

namespace reel {

absl::Status Lun::Read(std::uint64_t offset_bytes, std::span<std::byte> buffer) {
  IoBatch batch;
  batch.Add(*this, LunRequest::Kind::kRead, offset_bytes, {buffer.data(), buffer.size()});
  return batch.Run();
}

absl::Status Lun::Write(std::uint64_t offset_bytes, std::span<const std::byte> buffer) {
  IoBatch batch;
  batch.Add(*this, LunRequest::Kind::kWrite, offset_bytes,
            {const_cast<std::byte*>(buffer.data()), buffer.size()});  // iovec knows no const
  return batch.Run();
}

absl::StatusOr<std::unique_ptr<Lun>> OpenLun(const std::string& name, LunAccess access) {
  if (absl::StartsWith(name, "iscsi://")) {
    return absl::UnimplementedError(absl::StrCat(
        name,
        ": this build has no iSCSI initiator; log in with open-iscsi and name its block device"));
  }
  struct stat facts {};
  if (stat(name.c_str(), &facts) != 0) return OpenFailed(name, errno);
  if (S_ISBLK(facts.st_mode)) return BlockLun::Open(name, access);
  if (S_ISREG(facts.st_mode)) return FileLun::Open(name, access);
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": is neither a regular file nor a block device; name one of these"));
}

}  // namespace reel
