#include "mdc/ops/removal.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/names.h"
#include "mdc/ops/orphans.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::mdc {

absl::StatusOr<v1::InodeRecord*> InodeToUnlink(OpContext& ctx, const Entry& entry) {
  absl::StatusOr<v1::InodeRecord*> record = NamedInode(ctx.txn, entry.inode);
  if (record.ok() &&
      ((*record)->flags() & (v1::INODE_FLAG_IMMUTABLE | v1::INODE_FLAG_APPEND)) != 0) {
    return ErrnoStatus(EPERM,
                       absl::StrCat("inode ", entry.inode.value(), " is immutable or append-only"));
  }
  return record;
}

absl::Status TakeName(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  // Who holds a directory's attribute token may have it open without having said so.
  if (S_ISDIR(record.mode())) {
    if (absl::Status recalled = ctx.RequireUncached(inode); !recalled.ok()) return recalled;
  }
  record.set_nlink(S_ISDIR(record.mode()) || record.nlink() == 0 ? 0 : record.nlink() - 1);
  TouchChange(ctx, inode, record);
  return record.nlink() == 0 ? DropInode(ctx, inode) : absl::OkStatus();
}

absl::Status Unlink(OpContext& ctx, const v1::Request& request, v1::Reply&) {
  const v1::Unlink& unlink = request.unlink();
  if (absl::Status valid = ValidateName(unlink.name()); !valid.ok()) return valid;
  // The parent's flags are looked at last: an absent name is ENOENT in any directory.
  const absl::StatusOr<Directory> parent = DirectoryToChange(ctx, unlink.parent(), true);
  if (!parent.ok() && ErrnoOf(parent.status()) != EPERM) return parent.status();
  if (unlink.name() == ".") return ErrnoStatus(unlink.directory() ? EINVAL : EISDIR);
  if (unlink.name() == "..") return ErrnoStatus(unlink.directory() ? ENOTEMPTY : EISDIR);
  const absl::StatusOr<std::optional<Entry>> found =
      FindEntry(ctx.txn, InodeNumber(unlink.parent()), unlink.name());
  if (!found.ok()) return found.status();
  if (!found->has_value()) return ErrnoStatus(ENOENT);
  if (!parent.ok()) return parent.status();
  const Entry& entry = **found;
  const absl::StatusOr<v1::InodeRecord*> record = InodeToUnlink(ctx, entry);
  if (!record.ok()) return record.status();
  const bool is_directory = S_ISDIR((*record)->mode());
  if (unlink.directory() && !is_directory) return ErrnoStatus(ENOTDIR);
  if (!unlink.directory() && is_directory) return ErrnoStatus(EISDIR);
  if (is_directory) {
    if (absl::Status undelegated = ctx.RequireUndelegated(entry.inode); !undelegated.ok())
      return undelegated;
    if ((*record)->entries() != 0) return ErrnoStatus(ENOTEMPTY);
  }

  ctx.effects.lets_go = unlink.lets_go();
  RemoveEntry(ctx, *parent, unlink.name(), entry);
  return TakeName(ctx, entry.inode, **record);
}

}  // namespace reel::mdc
