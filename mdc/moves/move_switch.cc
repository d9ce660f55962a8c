#include "mdc/moves/move_switch.h"

#include "absl/strings/str_cat.h"
#include "mdc/ops/extents.h"
#include "proto/status.h"

namespace reel::mdc {

absl::Status SwitchBlocks(OpContext& ctx, const Move& move) {
  const auto others = ctx.RequireOthersAtMost(move.inode, v1::TOKEN_NONE, move.span);
  if (!others.ok()) return others;
  const std::uint64_t length_blocks = move.span.end - move.span.first;
  const auto now =
      ReadExtents(ctx.txn, move.inode, move.span.first, length_blocks, move.extents.size() + 1);
  if (!now.ok()) return now.status();
  // (The token says so already; nothing else may lean on that.)
  if (*now != move.extents) {
    return ErrnoStatus(ESTALE, absl::StrCat("inode ", move.inode.value(), " has other blocks"));
  }
  ExtentEdit edit(ctx, move.inode);
  const absl::StatusOr<FileBlock> loaded = edit.Load(move.span.first, length_blocks);
  if (!loaded.ok()) return loaded.status();
  if (*loaded < move.span.end) {
    return ErrnoStatus(ESTALE, absl::StrCat("inode ", move.inode.value(), " has more extents"));
  }
  for (const Run& run : move.targets) ctx.allocator.Claim(ctx.txn, run);
  for (const Extent& extent : move.extents) {
    absl::Status removed = edit.Remove(extent.file_block, extent.length_blocks);
    if (!removed.ok()) return removed;
  }
  const absl::Status placed = ForEachPiece(move, [&](const Extent& piece, const Run& to) {
    absl::Status inserted = edit.InsertUnwritten(piece.file_block, to);
    if (!inserted.ok() || piece.state != ExtentState::kWritten) return inserted;
    return edit.MarkWritten(piece.file_block, piece.length_blocks);
  });
  if (!placed.ok()) return placed;
  return edit.Store();
}

}  // namespace reel::mdc
