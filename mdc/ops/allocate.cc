#include "mdc/ops/allocate.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/quota.h"
#include "mdc/ops/small_content.h"
#include "mdc/tables/token_table.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// The most that one request may ask for; the client splits what is larger.
constexpr std::uint64_t kMaxAllocateBlocks = std::uint64_t{1} << 28;

struct Hole {
  FileBlock start;
  FileBlock end;
};

std::vector<Hole> HolesOf(const ExtentEdit& edit, FileBlock start, FileBlock end) {
  std::vector<Hole> holes;
  FileBlock next = start;
  for (const Extent& extent : edit.Allocated(start, end - start)) {
    if (next < extent.file_block) holes.push_back({next, extent.file_block});
    next = extent.end();
  }
  if (next < end) holes.push_back({next, end});
  return holes;
}

// Where a block of the file belongs that is in a unit of which the extent has some.
std::optional<PoolBlock> PlaceInUnit(const Extent& extent, FileBlock block, std::uint64_t unit) {
  const bool same = extent.file_block.value() / unit <= block.value() / unit &&
                    block.value() / unit <= (extent.end().value() - 1) / unit;
  if (!same) return std::nullopt;
  if (extent.file_block < block) return extent.pool_block + (block - extent.file_block);
  const std::uint64_t before = extent.file_block - block;
  if (extent.pool_block.value() < before) return std::nullopt;
  return PoolBlock(extent.pool_block.value() - before);
}

// Where a hole's blocks should lie.
AllocationRequest RequestFor(const OpContext& ctx, const ExtentEdit& edit,
                             const v1::InodeRecord& record, const Hole& hole) {
  AllocationRequest request;
  request.length_blocks = hole.end - hole.start;
  request.affinity = record.affinity();
  request.session = ctx.caller.session;
  request.directory = InodeNumber(record.directory());
  request.file_block = hole.start;
  const auto continues = [&](PoolId pool, PoolBlock block) {
    request.has_goal = true;
    request.goal_pool = pool;
    request.goal_block = block;
  };
  const auto before = edit.Before(hole.start);
  if (before && before->end() == hole.start) {
    continues(before->pool, before->pool_block + before->length_blocks);
  } else if (const std::uint64_t most = ctx.allocator.largest_unit_blocks(); most > 1) {
    const FileBlock first(hole.start.value() / most * most);
    for (const Extent& extent : edit.Allocated(first, std::min(most, kEndOfFileBlocks - first))) {
      const auto place = PlaceInUnit(extent, hole.start, ctx.allocator.unit_blocks(extent.pool));
      if (place) continues(extent.pool, *place);
    }
  }
  return request;
}

// The whole blocks inside the byte range; empty when there is none.
Hole WholeBlocks(std::uint64_t offset, std::uint64_t length, std::uint32_t block_bytes) {
  const FileBlock start(DivideUp(offset, block_bytes));
  const FileBlock end((offset + length) / block_bytes);
  return {start, std::max(start, end)};
}

// The next step of a change of [start, end): where it begins, and where it ends at the latest.
struct Step {
  FileBlock start;
  FileBlock end;
};

absl::StatusOr<Step> LoadStep(const OpContext& ctx, ExtentEdit& edit, FileBlock start,
                              FileBlock end, std::uint64_t most_blocks) {
  const FileBlock from = std::max(start, ctx.progress.block);
  const std::uint64_t length = from < end ? std::min(end - from, most_blocks) : 0;
  const absl::StatusOr<FileBlock> loaded = edit.Load(from, length);
  if (!loaded.ok()) return loaded.status();
  return Step{from, *loaded};
}

// So much of what an owner may have is given ahead of what anybody asked for: a small part, as it
// would be missing elsewhere. `asked`: blocks that are given beside it.
std::uint64_t MostAhead(const QuotaRoom& room, std::uint64_t asked) {
  constexpr std::uint64_t kPart = 64;
  if (room.blocks_ahead == kNoQuotaLimit) return kNoQuotaLimit;
  return (room.blocks_ahead - std::min(room.blocks_ahead, asked)) / kPart;
}

void EndStep(OpContext& ctx, FileBlock done, FileBlock end) {
  ctx.progress.block = done;
  ctx.unfinished = done < end;
}

absl::Status Reserve(OpContext& ctx, ExtentEdit& edit, const v1::InodeRecord& record,
                     const v1::Allocate& allocate) {
  const BlockSpan span =
      BlocksOf(allocate.offset_bytes(), allocate.length_bytes(), ctx.descriptor.block_bytes);
  const FileBlock end = span.start + span.length_blocks;
  const absl::StatusOr<Step> step = LoadStep(ctx, edit, span.start, end, ctx.steps.blocks());
  if (!step.ok()) return step.status();
  const absl::StatusOr<FileBlock> filled =
      FillHoles(ctx, edit, record, step->start, step->end - step->start, 0);
  if (filled.ok()) EndStep(ctx, *filled, end);
  return filled.status();
}

absl::Status Punch(OpContext& ctx, ExtentEdit& edit, const v1::Allocate& allocate) {
  const Hole range =
      WholeBlocks(allocate.offset_bytes(), allocate.length_bytes(), ctx.descriptor.block_bytes);
  if (range.start == range.end) return absl::OkStatus();
  const absl::StatusOr<Step> step =
      LoadStep(ctx, edit, range.start, range.end, kEndOfFileBlocks - FileBlock(0));
  if (!step.ok()) return step.status();
  EndStep(ctx, step->end, range.end);
  if (absl::Status s = edit.Remove(step->start, step->end - step->start); !s.ok()) return s;
  return ctx.store.spent && edit.Splits() ? StoreIsFull() : absl::OkStatus();
}

absl::Status ZeroRange(OpContext& ctx, ExtentEdit& edit, const v1::InodeRecord& record,
                       const v1::Allocate& allocate) {
  const Hole range =
      WholeBlocks(allocate.offset_bytes(), allocate.length_bytes(), ctx.descriptor.block_bytes);
  if (range.start == range.end) return absl::OkStatus();
  const absl::StatusOr<Step> step = LoadStep(ctx, edit, range.start, range.end, ctx.steps.blocks());
  if (!step.ok()) return step.status();
  const absl::StatusOr<FileBlock> filled =
      FillHoles(ctx, edit, record, step->start, step->end - step->start, 0);
  if (!filled.ok()) return filled.status();
  edit.MarkUnwritten(step->start, *filled - step->start);
  EndStep(ctx, *filled, range.end);
  return absl::OkStatus();
}

absl::Status ApplyMode(OpContext& ctx, ExtentEdit& edit, const v1::InodeRecord& record,
                       const v1::Allocate& allocate) {
  switch (allocate.mode()) {
    case 0:
    case FALLOC_FL_KEEP_SIZE:
      return Reserve(ctx, edit, record, allocate);
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
      return Punch(ctx, edit, allocate);
    case FALLOC_FL_ZERO_RANGE:
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
      return ZeroRange(ctx, edit, record, allocate);
    default:
      return ErrnoStatus(EOPNOTSUPP, absl::StrCat("fallocate mode ", allocate.mode()));
  }
}

}  // namespace

absl::Status RequireRoomAhead(OpContext& ctx, const v1::InodeRecord& record, std::uint64_t blocks) {
  const absl::StatusOr<QuotaRoom> room = RoomFor(ctx, OwnerOf(record));
  if (!room.ok()) return room.status();
  if (blocks <= MostAhead(*room, 0)) return absl::OkStatus();
  return ErrnoStatus(EDQUOT, "nothing more is given ahead: a quota's limit is near");
}

absl::StatusOr<FileBlock> FillHoles(OpContext& ctx, ExtentEdit& edit, const v1::InodeRecord& record,
                                    FileBlock start, std::uint64_t length_blocks,
                                    std::uint64_t preallocated_blocks) {
  const FileBlock end = start + length_blocks;
  const std::vector<Hole> holes = HolesOf(edit, start, end);
  const absl::StatusOr<QuotaRoom> room = RoomFor(ctx, OwnerOf(record));
  if (!room.ok()) return room.status();
  std::uint64_t asked = 0;
  for (const Hole& hole : holes) asked += hole.end - hole.start;
  // All of it or nothing: a part would be missing elsewhere, and not be enough here.
  if (asked > room->blocks) return NoQuotaRoom(ctx, OwnerOf(record), asked);
  std::size_t taken = 0;
  for (const Hole& hole : holes) {
    AllocationRequest request = RequestFor(ctx, edit, record, hole);
    request.max_runs = ctx.steps.extents - taken;
    if (hole.end == end && preallocated_blocks > 0) {
      const std::vector<Extent> after = edit.Allocated(end, preallocated_blocks);
      request.preallocated_blocks =
          std::min(after.empty() ? preallocated_blocks : after.front().file_block - end,
                   MostAhead(*room, asked));
    }
    auto runs = ctx.allocator.Allocate(ctx.txn, request);
    if (!runs.ok()) return runs.status();
    FileBlock next = hole.start;
    for (const Run& run : *runs) {
      if (absl::Status s = edit.InsertUnwritten(next, run); !s.ok()) return s;
      next = next + run.length_blocks;
    }
    taken += runs->size();
    if (taken >= ctx.steps.extents) return std::min(next, hole.end);
  }
  return end;
}

absl::Status Allocate(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::Allocate& allocate = request.allocate();
  const InodeNumber inode(allocate.inode());
  if (absl::Status valid = ValidateByteRange(allocate.offset_bytes(), allocate.length_bytes());
      !valid.ok()) {
    return valid;
  }
  const auto found = RegularFile(ctx.txn, inode);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  const bool clears = (allocate.mode() & ~FALLOC_FL_KEEP_SIZE) != 0;
  const std::uint32_t forbidding = v1::INODE_FLAG_IMMUTABLE | (clears ? v1::INODE_FLAG_APPEND : 0);
  if ((record.flags() & forbidding) != 0) {
    return ErrnoStatus(EPERM,
                       absl::StrCat("inode ", inode.value(), " is immutable or append-only"));
  }
  if (ctx.tokens.Held(ctx.caller.session, inode) != v1::TOKEN_EXCLUSIVE) {
    return ErrnoStatus(EPERM, absl::StrCat("an allocation for inode ", inode.value(),
                                           " without its exclusive token"));
  }
  const BlockSpan span =
      BlocksOf(allocate.offset_bytes(), allocate.length_bytes(), ctx.descriptor.block_bytes);
  const bool punch = (allocate.mode() & FALLOC_FL_PUNCH_HOLE) != 0;
  if (!punch && span.length_blocks > kMaxAllocateBlocks) {
    return ErrnoStatus(EFBIG, absl::StrCat("an allocation of ", span.length_blocks,
                                           " blocks; at most ", kMaxAllocateBlocks, " at once"));
  }
  // What can be seen to fail fails before the first step.
  const std::uint64_t room = record.allocated_blocks() + ctx.allocator.total_free_blocks();
  if (!punch && ctx.progress.block == FileBlock(0) && span.length_blocks > room) {
    return ErrnoStatus(ENOSPC,
                       absl::StrCat("no space left: ", span.length_blocks, " blocks asked for"));
  }
  if (!punch && ctx.progress.block == FileBlock(0)) {
    const absl::StatusOr<QuotaRoom> quota = RoomFor(ctx, OwnerOf(record));
    if (!quota.ok()) return quota.status();
    if (span.length_blocks > record.allocated_blocks() &&
        span.length_blocks - record.allocated_blocks() > quota->blocks) {
      return NoQuotaRoom(ctx, OwnerOf(record), span.length_blocks - record.allocated_blocks());
    }
  }
  ExtentEdit edit(ctx, inode);
  if (absl::Status s = ApplyMode(ctx, edit, record, allocate); !s.ok()) return s;
  if (absl::Status s = edit.Store(); !s.ok()) return s;
  if (ctx.unfinished) return absl::OkStatus();

  const std::uint64_t end = allocate.offset_bytes() + allocate.length_bytes();
  if (allocate.mode() != 0 && allocate.mode() != FALLOC_FL_KEEP_SIZE) {
    ZeroContent(record, allocate.offset_bytes(), end);
  }
  if (!punch && end > record.size_bytes()) {
    if ((allocate.mode() & FALLOC_FL_KEEP_SIZE) != 0) {
      record.set_flags(record.flags() | v1::INODE_FLAG_KEEP_PREALLOCATION);
    } else {
      record.set_size_bytes(end);
    }
  }
  ClearSetGroupId(ctx.caller.credentials, record);
  TouchContent(ctx, inode, record);
  FillAttr(inode, record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
  return absl::OkStatus();
}

}  // namespace reel::mdc
