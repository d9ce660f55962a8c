#include "mdc/ops/new_inode.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/xattrs.h"
#include "mdc/tables/reserved_inode_table.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// Group and mode, as a set-group-id directory passes them on.
void InheritGroup(const v1::Credentials& credentials, const v1::InodeRecord& parent,
                  v1::InodeRecord& record) {
  record.set_gid(credentials.gid());
  if ((parent.mode() & S_ISGID) == 0) return;
  record.set_gid(parent.gid());
  if (S_ISDIR(record.mode())) {
    record.set_mode(record.mode() | S_ISGID);
  } else if ((record.mode() & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
             credentials.uid() != 0 && !InGroup(credentials, parent.gid())) {
    // Nobody makes a program that runs as a group they are not in.
    record.set_mode(record.mode() & ~std::uint32_t{S_ISGID});
  }
}

void FillNewInode(const OpContext& ctx, const v1::Create& create, const Directory& parent,
                  v1::InodeRecord& record) {
  const std::uint32_t type = create.mode() & S_IFMT;
  record.set_generation(ctx.next_sequence.value());
  record.set_mode((type == 0 ? S_IFREG : type) | (create.mode() & 07777));
  record.set_nlink(1);
  record.set_uid(ctx.caller.credentials.uid());
  InheritGroup(ctx.caller.credentials, *parent.record, record);
  const v1::Time now = ToProto(ctx.now);
  *record.mutable_atime() = now;
  *record.mutable_mtime() = now;
  *record.mutable_ctime() = now;
  *record.mutable_btime() = now;
  record.set_change(1);
  record.set_project(parent.record->project());
  if (type == 0 || type == S_IFREG || type == S_IFDIR) {
    const std::uint32_t folds = type == S_IFDIR ? v1::INODE_FLAG_CASEFOLD : 0;
    record.set_flags(parent.record->flags() & (v1::INODE_FLAG_SINGLE_WRITER | folds));
  }
  if (!parent.record->affinity().empty()) record.set_affinity(parent.record->affinity());
  if (S_ISREG(record.mode())) record.set_directory(parent.inode.value());
  switch (type) {
    case S_IFDIR:
      record.set_nlink(2);
      record.set_parent(parent.inode.value());
      record.set_next_cookie(3);
      break;
    case S_IFLNK:
      record.set_mode(S_IFLNK | 0777);
      record.set_symlink(create.symlink());
      record.set_size_bytes(create.symlink().size());
      break;
    case S_IFCHR:
    case S_IFBLK:
      record.set_rdev(create.rdev());
      break;
    default:
      break;
  }
}

}  // namespace

absl::StatusOr<NewInode> MakeInode(OpContext& ctx, const v1::Create& create,
                                   const Directory& parent) {
  const v1::Replay* const decided =
      ctx.decided.delegated != nullptr ? ctx.decided.delegated : ctx.decided.replay;
  const InodeNumber given(decided != nullptr ? decided->inode() : 0);
  if (ctx.decided.delegated != nullptr &&
      (ctx.decided.reserved == nullptr || ctx.decided.reserved->inode != given)) {
    return ErrnoStatus(EPROTO, absl::StrCat("inode number ", given.value(), " was not reserved"));
  }
  if (given != InodeNumber() && ctx.decided.delegated == nullptr) {
    if (!ctx.inode_numbers.MayBeOld(given)) {
      return ErrnoStatus(EPROTO, absl::StrCat("inode number ", given.value(), " was never given"));
    }
    const absl::StatusOr<v1::InodeRecord*> known = ctx.txn.Inode(given);
    if (known.ok()) return ErrnoStatus(EPROTO, "an inode number to be made again is in use");
    if (ErrnoOf(known.status()) != ESTALE) return known.status();
  }
  const absl::StatusOr<InodeNumber> inode = ctx.inode_numbers.Take(ctx.txn, given);
  if (!inode.ok()) return inode.status();
  v1::InodeRecord& record = *ctx.txn.NewInode(*inode);
  FillNewInode(ctx, create, parent, record);
  ctx.effects.on_commit.push_back(
      [&numbers = ctx.inode_numbers, inode = *inode] { numbers.Taken(inode); });
  if (given != InodeNumber()) record.set_generation(decided->generation());
  absl::Status inherited =
      InheritAcl(ctx, parent.inode, *parent.record, create.umask(), *inode, record);
  if (!inherited.ok()) return inherited;
  return NewInode{*inode, &record};
}

}  // namespace reel::mdc
