#include "mdc/ops/access.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/ops/entries.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/settings.h"
#include "mdc/ops/xattrs.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

using v1::SetAttr;

constexpr std::uint32_t kRead = R_OK, kWrite = W_OK, kExecute = X_OK;

bool Owns(const v1::Credentials& credentials, const v1::InodeRecord& record) {
  return credentials.uid() == 0 || credentials.uid() == record.uid();
}

absl::Status RequireOwner(const OpContext& ctx, const v1::InodeRecord& record,
                          std::string_view what) {
  if (Owns(ctx.caller.credentials, record)) return absl::OkStatus();
  return ErrnoStatus(EPERM, absl::StrCat(std::string(what), " takes the owner"));
}

absl::Status Denied() {
  return ErrnoStatus(EACCES, "modes and ACLs do not allow it to the caller");
}

// Whether mode and access ACL let the caller do all of `wanted`.
absl::Status MayAccess(OpContext& ctx, std::uint64_t inode, const v1::InodeRecord& record,
                       std::uint32_t wanted) {
  if (ctx.caller.credentials.uid() == 0 || wanted == 0) return absl::OkStatus();
  const absl::StatusOr<Acl> acl = FindAccessAcl(ctx, InodeNumber(inode), record);
  if (!acl.ok()) return acl.status();
  if (!acl->empty()) {
    return acl->Allows(ctx.caller.credentials, record, wanted) ? absl::OkStatus() : Denied();
  }
  const unsigned shift = ctx.caller.credentials.uid() == record.uid()    ? 6
                         : InGroup(ctx.caller.credentials, record.gid()) ? 3
                                                                         : 0;
  return ((record.mode() >> shift) & wanted) == wanted ? absl::OkStatus() : Denied();
}

// A check of one inode. One that does not exist is the operation's to refuse.
template <typename Check>
absl::Status OnInode(OpContext& ctx, std::uint64_t inode, Check check) {
  const absl::StatusOr<v1::InodeRecord*> record = ctx.txn.Inode(InodeNumber(inode));
  if (ctx.txn.missed()) return record.status();
  return record.ok() ? check(**record) : absl::OkStatus();
}

absl::Status MayAccessInode(OpContext& ctx, std::uint64_t inode, std::uint32_t wanted) {
  return OnInode(ctx, inode, [&](const v1::InodeRecord& record) {
    return MayAccess(ctx, inode, record, wanted);
  });
}

// In a sticky directory only the owner of the entry's inode, or of the directory, takes it away.
absl::Status MayTakeEntry(OpContext& ctx, std::uint64_t parent, const std::string& name) {
  return OnInode(ctx, parent, [&](const v1::InodeRecord& directory) -> absl::Status {
    if ((directory.mode() & S_ISVTX) == 0 || Owns(ctx.caller.credentials, directory)) {
      return absl::OkStatus();
    }
    const auto entry = FindEntry(ctx.txn, InodeNumber(parent), name);
    if (ctx.txn.missed()) return entry.status();
    if (!entry.ok() || !entry->has_value()) return absl::OkStatus();
    return OnInode(ctx, (*entry)->inode.value(), [&](const v1::InodeRecord& record) {
      return RequireOwner(ctx, record, "taking an entry out of a sticky directory");
    });
  });
}

absl::Status MayRename(OpContext& ctx, const v1::Rename& rename) {
  for (const std::uint64_t parent : {rename.parent(), rename.new_parent()}) {
    if (absl::Status s = MayAccessInode(ctx, parent, kWrite | kExecute); !s.ok()) return s;
  }
  if (absl::Status s = MayTakeEntry(ctx, rename.parent(), rename.name()); !s.ok()) return s;
  if (absl::Status s = MayTakeEntry(ctx, rename.new_parent(), rename.new_name()); !s.ok()) return s;
  if (rename.parent() == rename.new_parent()) return absl::OkStatus();
  // A directory that moves gets another "..": it is written to.
  const auto entry = FindEntry(ctx.txn, InodeNumber(rename.parent()), rename.name());
  if (ctx.txn.missed()) return entry.status();
  if (!entry.ok() || !entry->has_value() || !S_ISDIR((*entry)->type)) return absl::OkStatus();
  return MayAccessInode(ctx, (*entry)->inode.value(), kWrite);
}

absl::Status MayChangeOwner(const OpContext& ctx, const SetAttr& set,
                            const v1::InodeRecord& record) {
  const bool uid_changes = (set.fields() & SetAttr::UID) != 0 && set.uid() != record.uid();
  const bool gid_changes = (set.fields() & SetAttr::GID) != 0 && set.gid() != record.gid();
  if ((uid_changes && ctx.caller.credentials.uid() != 0) ||
      (gid_changes && !InGroup(ctx.caller.credentials, set.gid()) &&
       ctx.caller.credentials.uid() != 0)) {
    return ErrnoStatus(EPERM, "only root gives a file to another owner or group");
  }
  return RequireOwner(ctx, record, "chown");
}

absl::Status MayChangeMode(const OpContext& ctx, const SetAttr& set,
                           const v1::InodeRecord& record) {
  if (absl::Status s = RequireOwner(ctx, record, "chmod"); !s.ok()) return s;
  // Nobody makes a program that runs as a group they are not in.
  if ((set.mode() & S_ISGID) != 0 && !S_ISDIR(record.mode()) && ctx.caller.credentials.uid() != 0 &&
      !InGroup(ctx.caller.credentials, record.gid())) {
    return ErrnoStatus(EPERM, "set-group-id takes a member of the file's group");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MaySetAttributes(OpContext& ctx, const SetAttr& set, const v1::InodeRecord& record) {
  const auto has = [&](std::uint32_t fields) { return (set.fields() & fields) != 0; };
  if (has(SetAttr::MODE)) {
    if (absl::Status s = MayChangeMode(ctx, set, record); !s.ok()) return s;
  }
  if (has(SetAttr::UID | SetAttr::GID)) {
    if (absl::Status s = MayChangeOwner(ctx, set, record); !s.ok()) return s;
  }
  if (has(SetAttr::FLAGS)) {
    if (absl::Status s = RequireOwner(ctx, record, "changing flags"); !s.ok()) return s;
  }
  if (Owns(ctx.caller.credentials, record)) return absl::OkStatus();
  if (has(SetAttr::ATIME | SetAttr::MTIME | SetAttr::CTIME)) {
    return RequireOwner(ctx, record, "setting times");
  }
  constexpr std::uint32_t kByWriters =
      SetAttr::SIZE | SetAttr::ATIME_NOW | SetAttr::MTIME_NOW | SetAttr::KILL_SUID_SGID;
  return has(kByWriters) ? MayAccess(ctx, set.inode(), record, kWrite) : absl::OkStatus();
}

namespace {

// As mknod(2) without CAP_MKNOD, which no caller of a squashed host has: a device is whoever's who
// can name it, and also its mode is. (A whiteout is none.)
absl::Status MayCreate(OpContext& ctx, const v1::Create& create) {
  const bool whiteout = S_ISCHR(create.mode()) && create.rdev() == 0;
  if ((S_ISCHR(create.mode()) || S_ISBLK(create.mode())) && !whiteout) {
    return ErrnoStatus(EPERM, "no devices are made from hosts whose root is squashed");
  }
  return MayAccessInode(ctx, create.parent(), kWrite | kExecute);
}

absl::Status MayChangeXattr(OpContext& ctx, std::uint64_t inode, const std::string& name) {
  return OnInode(ctx, inode, [&](const v1::InodeRecord& record) -> absl::Status {
    if (name.starts_with("user.")) return MayAccess(ctx, inode, record, kWrite);
    if (IsSetting(name)) return RequireOwner(ctx, record, "changing a setting");
    if (name.starts_with("system.")) return RequireOwner(ctx, record, "changing an ACL");
    if (ctx.caller.credentials.uid() == 0) return absl::OkStatus();
    return ErrnoStatus(EPERM, absl::StrCat("only root sets ", name));
  });
}

}  // namespace

absl::Status CheckAccess(OpContext& ctx, const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kLookup:
      if (request.lookup().ahead()) return ErrnoStatus(EACCES, "each open is checked");
      return MayAccessInode(ctx, request.lookup().parent(), kExecute);
    case v1::Request::kGetAttr:
      return MayAccessInode(ctx, request.get_attr().inode(), request.get_attr().access() & 7);
    case v1::Request::kOpen:
      return MayAccessInode(ctx, request.open().inode(), request.open().access() & 7);
    case v1::Request::kSetAttr:
      return OnInode(ctx, request.set_attr().inode(), [&](const v1::InodeRecord& record) {
        return MaySetAttributes(ctx, request.set_attr(), record);
      });
    case v1::Request::kCreate:
      return MayCreate(ctx, request.create());
    case v1::Request::kLink:
      return MayAccessInode(ctx, request.link().parent(), kWrite | kExecute);
    case v1::Request::kUnlink: {
      const v1::Unlink& unlink = request.unlink();
      absl::Status s = MayAccessInode(ctx, unlink.parent(), kWrite | kExecute);
      return s.ok() ? MayTakeEntry(ctx, unlink.parent(), unlink.name()) : s;
    }
    case v1::Request::kRename:
      return MayRename(ctx, request.rename());
    case v1::Request::kReadDir:
      if (request.read_dir().layouts() > 0) return ErrnoStatus(EACCES, "each open is checked");
      return MayAccessInode(ctx, request.read_dir().inode(), kRead);
    case v1::Request::kGetXattr:
      if (!request.get_xattr().name().starts_with("user.")) return absl::OkStatus();
      return MayAccessInode(ctx, request.get_xattr().inode(), kRead);
    case v1::Request::kSetXattr:
      return MayChangeXattr(ctx, request.set_xattr().inode(), request.set_xattr().name());
    case v1::Request::kRemoveXattr:
      return MayChangeXattr(ctx, request.remove_xattr().inode(), request.remove_xattr().name());
    // Of sessions, of what was opened before, or of nobody's in particular.
    case v1::Request::OP_NOT_SET:
    case v1::Request::kHello:
    case v1::Request::kRenew:
    case v1::Request::kGoodbye:
    case v1::Request::kReclaim:
    case v1::Request::kNewKey:
    case v1::Request::kGiveUp:
    case v1::Request::kMapTaken:
    case v1::Request::kTraffic:
    case v1::Request::kPong:
    case v1::Request::kReadLink:
    case v1::Request::kListXattr:
    case v1::Request::kStatFs:
    case v1::Request::kSync:
    case v1::Request::kAccessed:
    case v1::Request::kClose:
    case v1::Request::kLayoutGet:
    case v1::Request::kLayoutCommit:  // its attributes: SetAttributesAlong
    case v1::Request::kLayoutReturn:
    case v1::Request::kAllocate:
    case v1::Request::kAttrReturn:
    case v1::Request::kSetLock:
    case v1::Request::kTestLock:
    case v1::Request::kCancelLock:
    case v1::Request::kLockReturn:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace reel::mdc
