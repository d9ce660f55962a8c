#include "mdc/ops/small_content.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/tables/token_table.h"
#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// What becomes written in blocks that the content stands for takes its place: all of them at once,
// in the first range, which one step marks as a whole.
absl::Status ValidateWritten(const v1::LayoutCommit& commit, FileBlock end_of_content) {
  for (int i = 0; i < commit.written_size(); ++i) {
    const v1::BlockRange& range = commit.written(i);
    if (range.file_block() >= end_of_content.value()) continue;
    const bool all =
        i == 0 && range.file_block() == 0 && range.length_blocks() >= end_of_content - FileBlock(0);
    if (all) continue;
    return ErrnoStatus(EINVAL, absl::StrCat("some of the ", end_of_content.value(),
                                            " first blocks of a small file"));
  }
  return absl::OkStatus();
}

}  // namespace

FileBlock EndOfContent(const v1::InodeRecord& record, std::uint32_t block_bytes) {
  return FileBlock(DivideUp(record.inline_data().size(), block_bytes));
}

void SetContent(v1::InodeRecord& record, const std::string& content) {
  record.set_inline_data(content);
  record.set_flags(record.flags() | v1::INODE_FLAG_INLINE);
}

void ClearContent(v1::InodeRecord& record) {
  record.clear_inline_data();
  record.set_flags(record.flags() & ~std::uint32_t{v1::INODE_FLAG_INLINE});
}

void CutContent(v1::InodeRecord& record, std::uint64_t size_bytes) {
  if (size_bytes >= record.inline_data().size()) return;
  if (size_bytes == 0) return ClearContent(record);
  record.mutable_inline_data()->resize(size_bytes);
}

void ZeroContent(v1::InodeRecord& record, std::uint64_t from_bytes, std::uint64_t to_bytes) {
  const std::uint64_t to = std::min<std::uint64_t>(to_bytes, record.inline_data().size());
  if (from_bytes >= to) return;
  std::string& content = *record.mutable_inline_data();
  std::fill(content.begin() + static_cast<std::ptrdiff_t>(from_bytes),
            content.begin() + static_cast<std::ptrdiff_t>(to), '\0');
}

absl::Status ValidateContent(const v1::LayoutCommit& commit) {
  if (!commit.has_content()) return absl::OkStatus();
  const std::size_t bytes = commit.content().size();
  if (bytes == 0 || bytes > kMaxSmallFileBytes || commit.written_size() > 0) {
    return ErrnoStatus(EINVAL, absl::StrCat("a content of ", bytes, " bytes, with ",
                                            commit.written_size(), " ranges"));
  }
  return absl::OkStatus();
}

absl::Status MayCommitContent(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record,
                              const v1::LayoutCommit& commit) {
  if (!commit.has_content()) {
    return ValidateWritten(commit, EndOfContent(record, ctx.descriptor.block_bytes));
  }
  const std::uint64_t size = commit.has_size_bytes() ? commit.size_bytes() : record.size_bytes();
  if (commit.content().size() != size) {
    return ErrnoStatus(EINVAL, absl::StrCat("a content of ", commit.content().size(),
                                            " bytes for a file of ", size));
  }
  if (ctx.tokens.Held(ctx.caller.session, inode) != v1::TOKEN_EXCLUSIVE) {
    return ErrnoStatus(EPERM, absl::StrCat("a commit of all of inode ", inode.value(),
                                           " without its exclusive token"));
  }
  // Nobody was told that it may.
  const absl::StatusOr<v1::VolumeRecord> volume = VolumeCounts(ctx.txn);
  if (!volume.ok()) return volume.status();
  if (volume->format() >= schema::kSmallFilesFormat) return absl::OkStatus();
  return ErrnoStatus(EINVAL, "this volume has no small files");
}

}  // namespace reel::mdc
