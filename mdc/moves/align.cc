#include "mdc/moves/align.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "volume/base/size.h"
#include "volume/base/types.h"

namespace reel::mdc {
namespace {

FileBlock UnitStart(FileBlock block, std::uint64_t unit_blocks) {
  return FileBlock(block.value() / unit_blocks * unit_blocks);
}

FileBlock UnitEnd(FileBlock end, std::uint64_t unit_blocks) {
  return FileBlock(std::min(RoundUp(end.value(), unit_blocks), kEndOfFileBlocks.value()));
}

// How far its blocks are from their place in the file, around 2^64.
std::uint64_t ShiftOf(const Extent& extent) {
  return extent.pool_block.value() - extent.file_block.value();
}

// The units of the extent that do not lie well; `before`: what lies before it in its pool.
std::optional<TokenSpan> MisplacedBy(const Extent& extent, const Extent* before,
                                     std::uint64_t unit_blocks) {
  const FileBlock start = UnitStart(extent.file_block, unit_blocks);
  if (ShiftOf(extent) % unit_blocks != 0) {
    return TokenSpan{.first = start, .end = UnitEnd(extent.end(), unit_blocks)};
  }
  const bool shares = before != nullptr && start < before->end();
  if (!shares || ShiftOf(*before) == ShiftOf(extent)) return std::nullopt;
  return TokenSpan{.first = start, .end = UnitEnd(start + 1, unit_blocks)};
}

}  // namespace

absl::Status CheckUnit(const VolumeDescriptor& descriptor, PoolId id, std::uint64_t unit_bytes) {
  const Pool& pool = descriptor.pools[id.value()];
  if ((pool.flags & Pool::kData) == 0) {
    return absl::FailedPreconditionError(absl::StrCat("pool ", pool.name, " has no files"));
  }
  if (!IsPowerOfTwo(unit_bytes) || unit_bytes > kMaxBlockBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a block size of ", FormatSize(unit_bytes),
                                                   " is no power of two up to ",
                                                   FormatSize(kMaxBlockBytes)));
  }
  if (unit_bytes < descriptor.block_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("a pool's block size is at least that with which the volume was made, ",
                     FormatSize(descriptor.block_bytes)));
  }
  return absl::OkStatus();
}

std::optional<TokenSpan> FirstMisplaced(const std::vector<Extent>& extents, PoolId pool,
                                        std::uint64_t unit_blocks) {
  std::optional<TokenSpan> found;
  const Extent* before = nullptr;
  for (const Extent& extent : extents) {
    if (extent.pool != pool) continue;
    const auto misplaced = MisplacedBy(extent, before, unit_blocks);
    before = &extent;
    if (!misplaced) continue;
    if (found && found->end < misplaced->first) break;
    if (!found) found = misplaced;
    found->end = std::max(found->end, misplaced->end);
  }
  return found;
}

}  // namespace reel::mdc
