#include "mdc/ops/inode.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "proto/times.h"

namespace reel::mdc {
namespace {

// What a small file's content takes, as stat(2) counts. (Programs take a file of no blocks for one
// hole, tar among them.)
constexpr std::uint64_t kContentUnitBytes = 512;

}  // namespace

void FillAttr(InodeNumber inode, const v1::InodeRecord& record, const VolumeDescriptor& descriptor,
              v1::Attr& attr) {
  attr.set_inode(inode.value());
  attr.set_generation(record.generation());
  attr.set_mode(record.mode());
  attr.set_nlink(record.nlink());
  attr.set_uid(record.uid());
  attr.set_gid(record.gid());
  attr.set_rdev(record.rdev());
  attr.set_size_bytes(record.size_bytes());
  attr.set_allocated_bytes(record.allocated_blocks() > 0
                               ? record.allocated_blocks() * descriptor.block_bytes
                               : RoundUp(record.inline_data().size(), kContentUnitBytes));
  *attr.mutable_atime() = record.atime();
  *attr.mutable_mtime() = record.mtime();
  *attr.mutable_ctime() = record.ctime();
  *attr.mutable_btime() = record.btime();
  attr.set_change(record.change());
  attr.set_flags(record.flags());
  attr.set_project(record.project());
  attr.set_xattrs(record.xattr_name_bytes() > 0);
  if (S_ISREG(record.mode())) attr.set_directory(record.directory());
}

void TouchChange(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  *record.mutable_ctime() = ToProto(ctx.now);
  record.set_change(record.change() + 1);
  ctx.txn.Changed(inode);
}

void TouchContent(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  *record.mutable_mtime() = ToProto(ctx.now);
  TouchChange(ctx, inode, record);
}

bool AtimeDue(const v1::InodeRecord& record, WallTime now) {
  return reel::AtimeDue(record.atime(), record.mtime(), record.ctime(), ToProto(now));
}

absl::StatusOr<v1::InodeRecord*> LiveDirectory(Txn& txn, InodeNumber inode) {
  absl::StatusOr<v1::InodeRecord*> record = txn.Inode(inode);
  if (!record.ok()) return record;
  if (!S_ISDIR((*record)->mode())) {
    return ErrnoStatus(ENOTDIR, absl::StrCat("inode ", inode.value(), " is no directory"));
  }
  if ((*record)->nlink() == 0) {
    return ErrnoStatus(ENOENT, absl::StrCat("directory ", inode.value(), " has been removed"));
  }
  return record;
}

absl::StatusOr<v1::InodeRecord*> RegularFile(Txn& txn, InodeNumber inode) {
  absl::StatusOr<v1::InodeRecord*> record = txn.Inode(inode);
  if (!record.ok() || S_ISREG((*record)->mode())) return record;
  return ErrnoStatus(S_ISDIR((*record)->mode()) ? EISDIR : EINVAL,
                     absl::StrCat("inode ", inode.value(), " is no regular file"));
}

absl::StatusOr<v1::InodeRecord*> NamedInode(Txn& txn, InodeNumber inode) {
  absl::StatusOr<v1::InodeRecord*> record = txn.Inode(inode);
  if (record.ok() || txn.missed() || ErrnoOf(record.status()) != ESTALE) return record;
  return absl::DataLossError(absl::StrCat("an entry names inode ", inode.value(),
                                          ", which does not exist; run fsck.reelfs"));
}

absl::Status ClearPrivileges(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  if (!S_ISREG(record.mode())) return absl::OkStatus();
  std::uint32_t mode = record.mode() & ~std::uint32_t{S_ISUID};
  // Without group execution the bit once meant mandatory locking, no privilege.
  if ((mode & S_IXGRP) != 0) mode &= ~std::uint32_t{S_ISGID};
  if (mode != record.mode()) {
    record.set_mode(mode);
    ctx.txn.Changed(inode);
  }
  return DropCapability(ctx, inode, record);
}

absl::Status DropCapability(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  if (!S_ISREG(record.mode()) || record.xattr_name_bytes() == 0) return absl::OkStatus();
  constexpr std::string_view kCapability = "security.capability";
  std::string key = schema::XattrKey(inode, kCapability);
  const absl::StatusOr<std::optional<std::string>> capability = ctx.txn.Get(key);
  if (!capability.ok()) return capability.status();
  if (capability->has_value()) {
    ctx.txn.Delete(std::move(key));
    record.set_xattr_name_bytes(record.xattr_name_bytes() -
                                static_cast<std::uint32_t>(kCapability.size() + 1));
    ctx.txn.Changed(inode);
  }
  return absl::OkStatus();
}

void ClearSetGroupId(const v1::Credentials& credentials, v1::InodeRecord& record) {
  if (!S_ISREG(record.mode()) || credentials.uid() == 0) return;
  if (InGroup(credentials, record.gid())) return;
  record.set_mode(record.mode() & ~std::uint32_t{S_ISGID});
}

bool InGroup(const v1::Credentials& credentials, std::uint32_t gid) {
  if (credentials.gid() == gid) return true;
  for (const std::uint32_t group : credentials.groups()) {
    if (group == gid) return true;
  }
  return false;
}

absl::Status DamagedRecord(std::string_view what, InodeNumber inode) {
  return absl::DataLossError(absl::StrCat(absl::string_view(what.data(), what.size()), " of inode ",
                                          inode.value(), " is damaged; run fsck.reelfs"));
}

}  // namespace reel::mdc
