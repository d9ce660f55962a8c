#include "proto/convert.h"

#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace reel {

v1::Extent ToProto(const Extent& extent) {
  v1::Extent out;
  out.set_file_block(extent.file_block.value());
  out.set_length_blocks(extent.length_blocks);
  out.set_state(static_cast<v1::ExtentState>(extent.state));
  if (extent.state != ExtentState::kHole) {
    out.set_pool(extent.pool.value());
    out.set_pool_block(extent.pool_block.value());
  }
  return out;
}

absl::StatusOr<Extent> FromProto(const v1::Extent& extent) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  if (extent.length_blocks() == 0 || extent.file_block() > kMax - extent.length_blocks() ||
      extent.pool_block() > kMax - extent.length_blocks()) {
    return ErrnoStatus(EINVAL,
                       absl::StrCat("extent at file block ", extent.file_block(),
                                    " is empty or wraps: ", extent.length_blocks(), " blocks"));
  }
  Extent out;
  switch (extent.state()) {
    case v1::EXTENT_HOLE:
      out.state = ExtentState::kHole;
      break;
    case v1::EXTENT_UNWRITTEN:
      out.state = ExtentState::kUnwritten;
      break;
    case v1::EXTENT_WRITTEN:
      out.state = ExtentState::kWritten;
      break;
    default:
      return ErrnoStatus(EINVAL, absl::StrCat("extent at file block ", extent.file_block(),
                                              " has unknown state ", int{extent.state()}));
  }
  out.file_block = FileBlock(extent.file_block());
  out.length_blocks = extent.length_blocks();
  if (out.state != ExtentState::kHole) {
    out.pool = PoolId(extent.pool());
    out.pool_block = PoolBlock(extent.pool_block());
  }
  return out;
}

v1::Time ToProto(WallTime time) {
  v1::Time out;
  out.set_seconds(time.seconds);
  out.set_nanoseconds(time.nanoseconds);
  return out;
}

absl::StatusOr<WallTime> FromProto(const v1::Time& time) {
  if (time.nanoseconds() >= 1'000'000'000) {
    return ErrnoStatus(EINVAL, absl::StrCat("time has ", time.nanoseconds(), " nanoseconds"));
  }
  return WallTime{time.seconds(), time.nanoseconds()};
}

BlockSpan BlocksOf(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                   std::uint32_t block_bytes) {
  const std::uint64_t start = offset_bytes / block_bytes;
  return {FileBlock(start), DivideUp(offset_bytes + length_bytes, block_bytes) - start};
}

absl::Status ValidateByteRange(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  if (length_bytes == 0 ||
      offset_bytes > std::numeric_limits<std::uint64_t>::max() - length_bytes) {
    return ErrnoStatus(EINVAL, absl::StrCat("byte range at ", offset_bytes,
                                            " is empty or wraps: ", length_bytes, " bytes"));
  }
  if (offset_bytes + length_bytes > kMaxFileBytes) {
    return ErrnoStatus(EFBIG, absl::StrCat("byte range ends at ", offset_bytes + length_bytes,
                                           ", beyond the largest file of ", kMaxFileBytes));
  }
  return absl::OkStatus();
}

absl::Status ValidateName(std::string_view name) {
  if (name.empty()) return ErrnoStatus(ENOENT, "the name is empty");
  if (name.size() > 255) {
    return ErrnoStatus(ENAMETOOLONG,
                       absl::StrCat("the name has ", name.size(), " bytes, over 255"));
  }
  if (name.find('/') != name.npos || name.find('\0') != name.npos) {
    return ErrnoStatus(EINVAL, "the name holds '/' or NUL");
  }
  return absl::OkStatus();
}

}  // namespace reel
