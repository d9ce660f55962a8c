// Messages ⇄ volume structures. What comes from the wire is validated here, once.
#pragma once

#include "absl/status/statusor.h"
#include "proto/types.pb.h"
#include "volume/base/env.h"
#include "volume/format/extent_map.h"

namespace reel {

v1::Extent ToProto(const Extent& extent);
// EINVAL: empty, a wrapping range, or an unknown state.
absl::StatusOr<Extent> FromProto(const v1::Extent& extent);

v1::Time ToProto(WallTime time);
// EINVAL: nanoseconds out of range.
absl::StatusOr<WallTime> FromProto(const v1::Time& time);

// The blocks that hold bytes [offset, offset + length). REQUIRES: length > 0, no wrap.
struct BlockSpan {
  FileBlock start;
  std::uint64_t length_blocks = 0;
};
BlockSpan BlocksOf(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                   std::uint32_t block_bytes);

// Largest file: 2^62 bytes, so that offset + length never wraps.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 62;
// EINVAL: empty or wrapping; EFBIG: ends beyond kMaxFileBytes.
absl::Status ValidateByteRange(std::uint64_t offset_bytes, std::uint64_t length_bytes);
// ENOENT for empty, ENAMETOOLONG over 255 bytes, EINVAL for '/' or NUL within, EEXIST-free check of
// "." and ".." is the operation's own.
absl::Status ValidateName(std::string_view name);
// What an entry adds to its directory's size.
inline constexpr std::uint64_t kEntryBytes = 32;

}  // namespace reel
