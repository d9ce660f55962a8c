#include "volume/lun/lun.h"

#include "absl/strings/str_cat.h"
#include "volume/lun/io_batch.h"

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

absl::Status CheckLunRange(const Lun& lun, std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  const std::uint32_t block_bytes = lun.logical_block_bytes();
  if (offset_bytes % block_bytes != 0 || length_bytes % block_bytes != 0 || length_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a multiple of the logical block of ", block_bytes, " bytes"));
  }
  if (offset_bytes > lun.size_bytes() || length_bytes > lun.size_bytes() - offset_bytes) {
    return absl::OutOfRangeError(
        absl::StrCat("beyond the end of the LUN at ", lun.size_bytes(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckLunWritable(const Lun& lun) {
  if (!lun.read_only()) return absl::OkStatus();
  return absl::FailedPreconditionError("the LUN was opened read-only");
}

}  // namespace reel
