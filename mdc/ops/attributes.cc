#include "mdc/ops/attributes.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/access.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/orphans.h"
#include "mdc/ops/settings.h"
#include "mdc/ops/small_content.h"
#include "mdc/ops/xattrs.h"
#include "mdc/space/allocator.h"
#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/status.h"
#include "proto/times.h"

namespace reel::mdc {
namespace {

using v1::SetAttr;

constexpr std::uint32_t kKnownFields = SetAttr::MODE | SetAttr::UID | SetAttr::GID | SetAttr::SIZE |
                                       SetAttr::ATIME | SetAttr::MTIME | SetAttr::ATIME_NOW |
                                       SetAttr::MTIME_NOW | SetAttr::CTIME |
                                       SetAttr::KILL_SUID_SGID | SetAttr::FLAGS | SetAttr::ACCESSED;
constexpr std::uint32_t kRootsFlags = v1::INODE_FLAG_IMMUTABLE | v1::INODE_FLAG_APPEND;
constexpr std::uint32_t kSettableFlags = kRootsFlags | v1::INODE_FLAG_CASEFOLD;

bool Has(const SetAttr& set, std::uint32_t fields) {
  return (set.fields() & fields) != 0;
}

absl::Status ValidateTimes(const SetAttr& set) {
  if (Has(set, SetAttr::ATIME | SetAttr::ACCESSED)) {
    if (absl::Status valid = FromProto(set.atime()).status(); !valid.ok()) return valid;
  }
  if (Has(set, SetAttr::MTIME)) {
    if (absl::Status valid = FromProto(set.mtime()).status(); !valid.ok()) return valid;
  }
  if (Has(set, SetAttr::CTIME)) return FromProto(set.ctime()).status();
  return absl::OkStatus();
}

absl::Status ValidateSize(const SetAttr& set, const v1::InodeRecord& record) {
  if (S_ISDIR(record.mode())) return ErrnoStatus(EISDIR);
  if (!S_ISREG(record.mode())) return ErrnoStatus(EINVAL, "only regular files have a size to set");
  if (set.size_bytes() > kMaxFileBytes) {
    return ErrnoStatus(
        EFBIG, absl::StrCat("size ", set.size_bytes(), " is over the limit of ", kMaxFileBytes));
  }
  return absl::OkStatus();
}

// What the inode's type and flags forbid, as Linux's notify_change and file systems do.
absl::Status Validate(const OpContext& ctx, const SetAttr& set, const v1::InodeRecord& record) {
  if ((set.fields() & ~kKnownFields) != 0) {
    return ErrnoStatus(EINVAL, absl::StrCat("unknown attribute fields ", set.fields()));
  }
  if (absl::Status valid = ValidateTimes(set); !valid.ok()) return valid;
  if (Has(set, SetAttr::SIZE)) {
    if (absl::Status valid = ValidateSize(set, record); !valid.ok()) return valid;
  }
  if (Has(set, SetAttr::MODE) && S_ISLNK(record.mode())) return ErrnoStatus(EOPNOTSUPP);
  const bool immutable = (record.flags() & v1::INODE_FLAG_IMMUTABLE) != 0;
  const bool append = (record.flags() & v1::INODE_FLAG_APPEND) != 0;
  // Both times together may become "now": that is what touch(1) and an append do.
  constexpr std::uint32_t kNow = SetAttr::ATIME_NOW | SetAttr::MTIME_NOW;
  constexpr std::uint32_t kAllowedOnAppend = SetAttr::FLAGS | SetAttr::KILL_SUID_SGID;
  const std::uint32_t but_now = (set.fields() & kNow) == kNow ? kNow : 0;
  if ((immutable && Has(set, ~std::uint32_t{SetAttr::FLAGS})) ||
      (append && Has(set, ~(kAllowedOnAppend | but_now)))) {
    return ErrnoStatus(EPERM, absl::StrCat("inode ", set.inode(), " is immutable or append-only"));
  }
  if (Has(set, SetAttr::FLAGS)) {
    const std::uint32_t changed = set.flags() ^ record.flags();
    if ((set.flags() & ~record.flags() & ~kSettableFlags) != 0) {
      return ErrnoStatus(EOPNOTSUPP, absl::StrCat("inode flags ", set.flags()));
    }
    if ((changed & kRootsFlags) != 0 && ctx.caller.credentials.uid() != 0) {
      return ErrnoStatus(EPERM);
    }
    if ((changed & v1::INODE_FLAG_CASEFOLD) != 0) {
      if (!S_ISDIR(record.mode())) return ErrnoStatus(EOPNOTSUPP, "only directories fold names");
      // Two of its names might be one, or one two.
      if (record.entries() != 0) return ErrnoStatus(ENOTEMPTY, "a directory with names in it");
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyFlags(OpContext& ctx, const SetAttr& set, v1::InodeRecord& record) {
  record.set_flags((record.flags() & ~kSettableFlags) | (set.flags() & kSettableFlags));
  if ((set.flags() & v1::INODE_FLAG_CASEFOLD) == 0) return absl::OkStatus();
  // An earlier release would look for names as they are spelled.
  absl::StatusOr<v1::VolumeRecord> volume = VolumeCounts(ctx.txn);
  if (!volume.ok()) return volume.status();
  if (volume->format() >= schema::kFoldingFormat) return absl::OkStatus();
  volume->set_format(schema::kFoldingFormat);
  ctx.txn.Put(schema::VolumeKey(), volume->SerializeAsString());
  return absl::OkStatus();
}

absl::Status ApplyOwner(OpContext& ctx, const SetAttr& set, v1::InodeRecord& record) {
  // An owner who is not in the group may not pass its bit on, with or without group execution.
  const bool keeps_sgid = S_ISDIR(record.mode()) || !Has(set, SetAttr::UID | SetAttr::GID) ||
                          ctx.caller.credentials.uid() == 0 ||
                          InGroup(ctx.caller.credentials, record.gid());
  if (Has(set, SetAttr::UID)) record.set_uid(set.uid());
  if (Has(set, SetAttr::GID)) record.set_gid(set.gid());
  if (Has(set, SetAttr::UID | SetAttr::GID | SetAttr::KILL_SUID_SGID)) {
    absl::Status cleared = ClearPrivileges(ctx, InodeNumber(set.inode()), record);
    if (!cleared.ok()) return cleared;
  }
  if (Has(set, SetAttr::MODE)) record.set_mode((record.mode() & S_IFMT) | (set.mode() & 07777));
  if (!keeps_sgid) record.set_mode(record.mode() & ~std::uint32_t{S_ISGID});
  if (!Has(set, SetAttr::MODE)) return absl::OkStatus();
  return FollowMode(ctx, InodeNumber(set.inode()), record);
}

absl::Status ApplySize(OpContext& ctx, const SetAttr& set, v1::InodeRecord& record) {
  const bool shrinks = set.size_bytes() <= record.size_bytes();
  *record.mutable_mtime() = ToProto(ctx.now);  // a change also where the size stays
  record.set_size_bytes(set.size_bytes());
  if (!shrinks) return absl::OkStatus();
  CutContent(record, set.size_bytes());
  // Blocks beyond the end go too, also those that fallocate(2) put there.
  record.set_flags(record.flags() & ~std::uint32_t{v1::INODE_FLAG_KEEP_PREALLOCATION});
  return DropTail(ctx, InodeNumber(set.inode()), set.size_bytes());
}

void ApplyTimes(OpContext& ctx, const SetAttr& set, v1::InodeRecord& record) {
  if (Has(set, SetAttr::ATIME)) *record.mutable_atime() = set.atime();
  if (Has(set, SetAttr::MTIME)) *record.mutable_mtime() = set.mtime();
  if (Has(set, SetAttr::ATIME_NOW)) *record.mutable_atime() = ToProto(ctx.now);
  if (Has(set, SetAttr::MTIME_NOW)) *record.mutable_mtime() = ToProto(ctx.now);
}

// The change itself is one of now, unless it says when it was: then that counts, if nothing else
// has changed since.
void ApplyChangeTime(OpContext& ctx, const SetAttr& set, v1::InodeRecord& record) {
  const v1::Time before = record.ctime();
  const v1::Time now = ToProto(ctx.now);
  TouchChange(ctx, InodeNumber(set.inode()), record);
  if (!Has(set, SetAttr::CTIME)) return;
  if (!set.only_if_due()) {
    *record.mutable_ctime() = set.ctime();
    return;
  }
  const v1::Time& changed = Later(set.ctime(), now) ? now : set.ctime();
  *record.mutable_ctime() = Later(changed, before) ? changed : before;
}

// The trace of a read at a valid time: no change of the inode, so neither ctime nor the change
// counter move, and no token stands in its way.
void NoteRead(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record, const v1::Time& at,
              bool only_if_due) {
  // (Nobody is checked for it: what is yet to come would keep every later read from being noted.)
  const v1::Time now = ToProto(ctx.now);
  const v1::Time& read = Later(at, now) ? now : at;
  // Many hosts may read a file for the first time; one trace of it is enough.
  const bool due =
      !only_if_due || reel::AtimeDue(record.atime(), record.mtime(), record.ctime(), read);
  if (!due || !Later(read, record.atime())) return;
  *record.mutable_atime() = read;
  ctx.effects.lazily_seen = true;
  ctx.txn.Changed(inode);
}

absl::Status SetAccessed(OpContext& ctx, const SetAttr& set, v1::InodeRecord& record) {
  if (set.fields() != SetAttr::ACCESSED) return ErrnoStatus(EINVAL, "ACCESSED stands alone");
  if (absl::Status valid = ValidateTimes(set); !valid.ok()) return valid;
  NoteRead(ctx, InodeNumber(set.inode()), record, set.atime(), set.only_if_due());
  return absl::OkStatus();
}

}  // namespace

absl::Status GetAttr(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const InodeNumber inode(request.get_attr().inode());
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record.status();
  if (absl::Status recalled = ctx.RequireOthersAtMost(inode, v1::TOKEN_SHARED); !recalled.ok()) {
    return recalled;
  }
  ctx.effects.described.push_back(inode);
  FillAttr(inode, **record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
  return absl::OkStatus();
}

absl::Status SetAttr(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::SetAttr& set = request.set_attr();
  const InodeNumber inode(set.inode());
  const absl::StatusOr<v1::InodeRecord*> found = ctx.txn.Inode(inode);
  if (!found.ok()) return found.status();
  v1::InodeRecord& record = **found;
  if (Has(set, SetAttr::ACCESSED)) {
    if (absl::Status noted = SetAccessed(ctx, set, record); !noted.ok()) return noted;
    FillAttr(inode, record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
    return absl::OkStatus();
  }
  if (absl::Status valid = Validate(ctx, set, record); !valid.ok()) return valid;
  if (Has(set, v1::SetAttr::SIZE)) {
    if (absl::Status recalled = RequireNoOtherWriter(ctx, inode, record); !recalled.ok())
      return recalled;
  }
  const v1::TokenMode others = Has(set, v1::SetAttr::SIZE) ? v1::TOKEN_NONE : v1::TOKEN_SHARED;
  if (absl::Status recalled = ctx.RequireOthersAtMost(inode, others); !recalled.ok())
    return recalled;

  if (absl::Status applied = ApplyOwner(ctx, set, record); !applied.ok()) return applied;
  if (Has(set, v1::SetAttr::SIZE)) {
    ClearSetGroupId(ctx.caller.credentials, record);
    if (absl::Status applied = ApplySize(ctx, set, record); !applied.ok()) return applied;
  }
  if (Has(set, v1::SetAttr::FLAGS)) {
    if (absl::Status applied = ApplyFlags(ctx, set, record); !applied.ok()) return applied;
  }
  ApplyTimes(ctx, set, record);
  ApplyChangeTime(ctx, set, record);
  FillAttr(inode, record, ctx.descriptor, *reply.mutable_attr()->mutable_attr());
  return absl::OkStatus();
}

absl::StatusOr<int> SetAttributesAlong(OpContext& ctx, InodeNumber inode, const v1::SetAttr& set,
                                       v1::InodeRecord& record) {
  constexpr std::uint32_t kAlong = SetAttr::MODE | SetAttr::UID | SetAttr::GID | SetAttr::ATIME |
                                   SetAttr::MTIME | SetAttr::CTIME;
  if (InodeNumber(set.inode()) != inode || (set.fields() & ~kAlong) != 0) return EINVAL;
  absl::Status may = Validate(ctx, set, record);
  if (may.ok()) may = MaySetAttributes(ctx, set, record);
  if (ctx.txn.missed()) return may;
  if (!may.ok()) return ErrnoOf(may);
  if (absl::Status recalled = ctx.RequireOthersAtMost(inode, v1::TOKEN_SHARED); !recalled.ok())
    return recalled;
  if (absl::Status applied = ApplyOwner(ctx, set, record); !applied.ok()) return applied;
  ApplyTimes(ctx, set, record);
  ApplyChangeTime(ctx, set, record);
  return 0;
}

absl::Status ReadLink(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const InodeNumber inode(request.read_link().inode());
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (!record.ok()) return record.status();
  if (!S_ISLNK((*record)->mode())) return ErrnoStatus(EINVAL, "no symbolic link");
  reply.mutable_data()->set_data((*record)->symlink());
  reply.mutable_data()->set_atime_due(AtimeDue(**record, ctx.now));
  return absl::OkStatus();
}

absl::Status StatFs(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const absl::StatusOr<v1::VolumeRecord> volume = VolumeCounts(ctx.txn);
  if (!volume.ok()) return volume.status();
  v1::StatFsReply& out = *reply.mutable_stat_fs();
  out.set_block_bytes(ctx.descriptor.block_bytes);
  out.set_total_blocks(ctx.allocator.total_blocks());
  // Without room for their records nobody gets blocks.
  const std::uint64_t free = ctx.allocator.total_free_blocks() + ctx.store.removing_blocks;
  out.set_free_blocks(ctx.store.full ? 0 : std::min(free, out.total_blocks()));
  out.set_inodes(volume->inodes() + 1);
  const InodeNumber inode(request.stat_fs().inode());
  if (inode == InodeNumber(0)) return absl::OkStatus();
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
  if (ErrnoOf(record.status()) == ESTALE) return absl::OkStatus();  // it has been removed
  if (!record.ok()) return record.status();
  const absl::StatusOr<UsableSpace> space = SpaceFor(ctx, **record);
  if (!space.ok()) return space.status();
  out.set_total_blocks(space->total_blocks);
  out.set_free_blocks(ctx.store.full ? 0 : space->free_blocks);
  out.set_of_inode(true);
  return absl::OkStatus();
}

absl::Status Accessed(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const v1::Accessed& accessed = request.accessed();
  if (accessed.reads_size() > kMaxReads) {
    return ErrnoStatus(EINVAL, absl::StrCat(accessed.reads_size(), " access times in one message"));
  }
  for (const v1::Accessed::Read& read : accessed.reads()) {
    if (absl::Status valid = FromProto(read.time()).status(); !valid.ok()) return valid;
  }
  for (const v1::Accessed::Read& read : accessed.reads()) {
    const InodeNumber inode(read.inode());
    const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(inode);
    if (record.ok()) {
      NoteRead(ctx, inode, **record, read.time(), accessed.only_if_due());
    } else if (ctx.txn.missed() || ErrnoOf(record.status()) != ESTALE) {
      return record.status();
    }
  }
  return absl::OkStatus();
}

absl::Status Sync(OpContext&, const v1::Request&, v1::Reply&) {
  return absl::OkStatus();
}

}  // namespace reel::mdc
