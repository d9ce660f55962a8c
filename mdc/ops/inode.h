// What several operations do with an inode's record.
// Threads: the core thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

inline constexpr std::uint32_t kMaxLinks = 65'000;

// The attributes as stat(2) shows them.
void FillAttr(InodeNumber inode, const v1::InodeRecord& record, const VolumeDescriptor& descriptor,
              v1::Attr& attr);

// Something of the inode has changed: ctime and the change counter, and the record will be stored.
void TouchChange(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record);
// Its content too: mtime.
void TouchContent(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record);

// Whether a read of the inode now has to be noted, by the rule of relatime.
bool AtimeDue(const v1::InodeRecord& record, WallTime now);

// The record of a directory that still has a name. ESTALE, ENOTDIR, ENOENT (removed).
absl::StatusOr<v1::InodeRecord*> LiveDirectory(Txn& txn, InodeNumber inode);
// The record of a regular file. ESTALE, EISDIR, EINVAL (neither).
absl::StatusOr<v1::InodeRecord*> RegularFile(Txn& txn, InodeNumber inode);
// The record of an inode that an entry names: DATA_LOSS where LiveDirectory says ESTALE.
absl::StatusOr<v1::InodeRecord*> NamedInode(Txn& txn, InodeNumber inode);

// As any write does: a regular file's security.capability goes.
absl::Status DropCapability(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record);
// As a write or chown by another than root does: set-user-id goes, set-group-id where the group may
// execute, and security.capability. Regular files only; others stay as they are. Does not touch
// times.
absl::Status ClearPrivileges(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record);

// As a truncation or fallocate(2) by one outside the file's group does: set-group-id goes, also
// where the group may not execute. (The kernel clears what it knows to clear, but not that.)
void ClearSetGroupId(const v1::Credentials& credentials, v1::InodeRecord& record);

// Whether the credentials' group or supplementary groups include `gid`.
bool InGroup(const v1::Credentials& credentials, std::uint32_t gid);

// DATA_LOSS: `what` of the inode cannot be what an operation has stored.
absl::Status DamagedRecord(std::string_view what, InodeNumber inode);

}  // namespace reel::mdc
