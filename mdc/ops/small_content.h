// Small files: those whose bytes lie in the inode's record (docs/internals/small-files.md).
//
// Invariants:
//   1. InodeRecord.inline_data is the first bytes of the file, at most kMaxSmallFileBytes and no
//      more than its size. INODE_FLAG_INLINE is set where it is not empty, and nowhere else.
//   2. It stands in place of the blocks that it reaches into, whatever those hold; up to their end
//      zeros follow. Who is granted any of a small file is granted the whole of it.
//   3. It goes in the commit that makes all of these blocks written ones, or with a truncation.
// Threads: the core thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

inline bool IsSmall(const v1::InodeRecord& record) {
  return !record.inline_data().empty();
}
// The file's first blocks, which its content stands for; none where it is not small.
FileBlock EndOfContent(const v1::InodeRecord& record, std::uint32_t block_bytes);

void SetContent(v1::InodeRecord& record, const std::string& content);
void ClearContent(v1::InodeRecord& record);
// Only what comes before `size_bytes` is left.
void CutContent(v1::InodeRecord& record, std::uint64_t size_bytes);
// [from, to) becomes zeros.
void ZeroContent(v1::InodeRecord& record, std::uint64_t from_bytes, std::uint64_t to_bytes);

// What a commit may say of the content, by itself. EINVAL.
absl::Status ValidateContent(const v1::LayoutCommit& commit);
// … and of this file. EINVAL; EPERM: this session does not hold the whole file exclusively.
absl::Status MayCommitContent(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                              const v1::LayoutCommit& commit);

}  // namespace reel::mdc
