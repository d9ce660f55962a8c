#include "mdc/ops/orphans.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "mdc/metadb/schema.h"
#include "mdc/ops/extents.h"
#include "mdc/ops/inode.h"
#include "mdc/tables/token_table.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// Deletes up to ctx.steps.reaped attributes; true when none is left.
absl::StatusOr<bool> RemoveSomeXattrs(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  if (record.xattr_name_bytes() == 0) return true;
  std::vector<std::string> keys;
  std::size_t name_bytes = 0;
  bool all = true;
  const std::string prefix = schema::XattrPrefix(inode);
  const absl::Status scanned =
      ctx.txn.Scan(prefix, prefix, [&](std::string_view key, std::string_view) {
        all = keys.size() < ctx.steps.reaped;
        if (!all) return false;
        keys.emplace_back(key);
        name_bytes += key.size() - prefix.size() + 1;
        return true;
      });
  if (!scanned.ok()) return scanned;
  for (std::string& key : keys) ctx.txn.Delete(std::move(key));
  if (name_bytes > record.xattr_name_bytes()) {
    return DamagedRecord("count of attribute names", inode);
  }
  record.set_xattr_name_bytes(record.xattr_name_bytes() - static_cast<std::uint32_t>(name_bytes));
  ctx.txn.Changed(inode);
  return all;
}

absl::Status CountInodeGone(OpContext& ctx) {
  absl::StatusOr<v1::VolumeRecord> volume = VolumeCounts(ctx.txn);
  if (!volume.ok()) return volume.status();
  if (volume->inodes() > 0) volume->set_inodes(volume->inodes() - 1);
  ctx.txn.Put(schema::VolumeKey(), volume->SerializeAsString());
  return absl::OkStatus();
}

// Frees what one commit may free of an inode without names; true when the inode itself is gone.
absl::StatusOr<bool> FreeSome(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  // A session that was refused it may still claim in the next epoch to have it open.
  record.set_removing(true);
  ctx.txn.Changed(inode);
  if (record.allocated_blocks() > 0) {
    const absl::StatusOr<bool> all = RemoveSomeExtents(
        ctx, inode, FileBlock(0), kEndOfFileBlocks - FileBlock(0), ctx.steps.reaped);
    if (!all.ok() || !*all) return all;
  }
  const absl::StatusOr<bool> all = RemoveSomeXattrs(ctx, inode, record);
  if (!all.ok() || !*all) return all;
  if (absl::Status counted = CountInodeGone(ctx); !counted.ok()) return counted;
  ctx.txn.DeleteInode(inode);
  return true;
}

// What a file has ahead of what was written, where no session knows of its blocks.
absl::StatusOr<bool> FreeAhead(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record) {
  const bool held = !ctx.tokens.OthersAtMost(SessionId(0), inode, v1::TOKEN_NONE);
  if (held || record.allocated_blocks() == 0 || !S_ISREG(record.mode()) ||
      (record.flags() & v1::INODE_FLAG_KEEP_PREALLOCATION) != 0) {
    return true;
  }
  const FileBlock end(DivideUp(record.size_bytes(), ctx.descriptor.block_bytes));
  return RemoveSomeExtents(ctx, inode, end, kEndOfFileBlocks - end, ctx.steps.reaped);
}

}  // namespace

void PutOnOrphanList(OpContext& ctx, InodeNumber inode) {
  v1::OrphanRecord orphan;
  *orphan.mutable_since() = ToProto(ctx.now);
  ctx.txn.Put(schema::OrphanKey(inode), orphan.SerializeAsString());
  ctx.effects.orphans.push_back(inode);
}

absl::Status DropInode(OpContext& ctx, InodeNumber inode) {
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record.status();
  // A token, this session's own too, may have writes to the blocks under way: they wait for its
  // return. What is done again is so before it is known who has what.
  const SessionId returns = ctx.effects.lets_go ? ctx.caller.session : SessionId(0);
  const bool in_use = ctx.decided.replay != nullptr || ctx.opens.IsOpen(inode) ||
                      !ctx.tokens.OthersAtMost(returns, inode, v1::TOKEN_NONE);
  if (ctx.effects.lets_go) {
    ctx.effects.on_commit.push_back([&tokens = ctx.tokens, session = ctx.caller.session, inode] {
      tokens.Return(session, inode, v1::TOKEN_NONE);
    });
  }
  const bool listed = (*record)->truncated_from() != 0;
  const bool may_be_opened = ctx.others.cached && S_ISREG((*record)->mode());
  if (!in_use && !listed && !may_be_opened) {
    const absl::StatusOr<bool> gone = FreeSome(ctx, inode, **record);
    if (!gone.ok()) return gone.status();
    if (*gone) return absl::OkStatus();
  }
  PutOnOrphanList(ctx, inode);
  if (may_be_opened) ctx.effects.late_opens.push_back(inode);
  return absl::OkStatus();
}

absl::Status DropTail(OpContext& ctx, InodeNumber inode, std::uint64_t size_bytes) {
  const absl::StatusOr<v1::InodeRecord*> found = ctx.txn.Inode(inode);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  if (record.allocated_blocks() == 0) return absl::OkStatus();
  const FileBlock first(DivideUp(size_bytes, ctx.descriptor.block_bytes));
  if (record.truncated_from() != 0) {
    // Under way already: it has only to begin earlier.
    record.set_truncated_from(std::min(record.truncated_from(), first.value() + 1));
    ctx.txn.Changed(inode);
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> all =
      RemoveSomeExtents(ctx, inode, first, kEndOfFileBlocks - first, ctx.steps.reaped);
  if (!all.ok()) return all.status();
  if (!*all) {
    record.set_truncated_from(first.value() + 1);
    PutOnOrphanList(ctx, inode);
  }
  return absl::OkStatus();
}

absl::StatusOr<Reaped> ReapOrphan(OpContext& ctx, InodeNumber inode, bool frees_ahead) {
  const absl::StatusOr<v1::InodeRecord*> found = ctx.txn.Inode(inode);
  if (!found.ok()) {
    if (ctx.txn.missed() || ErrnoOf(found.status()) != ESTALE) return found.status();
    ctx.txn.Delete(schema::OrphanKey(inode));
    return Reaped::kDone;
  }
  v1::InodeRecord& record = **found;
  const bool truncated = record.truncated_from() != 0;
  if (truncated) {
    const FileBlock first(record.truncated_from() - 1);
    const absl::StatusOr<bool> all =
        RemoveSomeExtents(ctx, inode, first, kEndOfFileBlocks - first, ctx.steps.reaped);
    if (!all.ok()) return all.status();
    if (!*all) return Reaped::kMore;
    record.set_truncated_from(0);
    ctx.txn.Changed(inode);
    if (record.nlink() == 0) return Reaped::kMore;
  }
  if (record.nlink() == 0) {
    if (ctx.opens.IsOpen(inode) && !record.removing()) return Reaped::kOpen;
    if (absl::Status recalled = ctx.RequireOthersAtMost(inode, v1::TOKEN_NONE); !recalled.ok()) {
      return recalled;
    }
    const absl::StatusOr<bool> gone = FreeSome(ctx, inode, record);
    if (!gone.ok()) return gone.status();
    if (!*gone) return Reaped::kMore;
  } else if (frees_ahead && !truncated) {
    const absl::StatusOr<bool> all = FreeAhead(ctx, inode, record);
    if (!all.ok()) return all.status();
    if (!*all) return Reaped::kMore;
  }
  ctx.txn.Delete(schema::OrphanKey(inode));
  return Reaped::kDone;
}

}  // namespace reel::mdc
