#include "volume/lun.h"

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

}  // namespace reel
