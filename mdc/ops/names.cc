#include "mdc/ops/names.h"

#include <sys/stat.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/entries.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/layout.h"
#include "mdc/ops/new_inode.h"
#include "mdc/ops/open.h"
#include "mdc/ops/orphans.h"
#include "mdc/ops/quota.h"
#include "mdc/tables/token_table.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxSymlinkBytes = 4095;  // PATH_MAX without its NUL

bool IsDots(std::string_view name) {
  return name == "." || name == "..";
}

// The name and target of a new inode are what they may be.
absl::Status ValidateCreate(const v1::Create& create) {
  if (create.unnamed()) {
    const bool valid = S_ISREG(create.mode()) && create.open() && create.name().empty();
    return valid ? absl::OkStatus() : ErrnoStatus(EINVAL, "an unnamed inode that is no open file");
  }
  if (absl::Status valid = ValidateName(create.name()); !valid.ok()) return valid;
  switch (create.mode() & S_IFMT) {
    case 0:
    case S_IFREG:
    case S_IFDIR:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK:
      return absl::OkStatus();
    case S_IFLNK:
      if (create.symlink().empty())
        return ErrnoStatus(ENOENT, "the symbolic link's target is empty");
      if (create.symlink().size() > kMaxSymlinkBytes) {
        return ErrnoStatus(ENAMETOOLONG, absl::StrCat("the symbolic link's target has ",
                                                      create.symlink().size(), " bytes"));
      }
      if (create.symlink().find('\0') != std::string::npos) {
        return ErrnoStatus(EINVAL, "the symbolic link's target holds NUL");
      }
      return absl::OkStatus();
    default:
      return ErrnoStatus(EINVAL, absl::StrCat("mode ", create.mode(), " has no known file type"));
  }
}

// The inode that a name stands for, "." and ".." included.
absl::StatusOr<InodeNumber> Resolve(Txn& txn, InodeNumber parent, const v1::InodeRecord& record,
                                    const std::string& name) {
  if (name == ".") return parent;
  if (name == "..") return InodeNumber(record.parent());
  const absl::StatusOr<std::optional<Entry>> entry = FindEntry(txn, parent, name);
  if (!entry.ok()) return entry.status();
  if (!entry->has_value()) return ErrnoStatus(ENOENT);
  return (*entry)->inode;
}

// The new inode, with its name where it gets one, and its open where one is asked for.
absl::Status MakeAndName(OpContext& ctx, const v1::Create& create, const Directory& parent,
                         v1::Reply& reply) {
  const absl::StatusOr<NewInode> made = MakeInode(ctx, create, parent);
  if (!made.ok()) return made.status();
  const auto& [inode, record] = *made;
  if (create.open() && S_ISREG(record->mode())) {
    const bool was_described = ctx.decided.delegated != nullptr || ctx.decided.replay != nullptr;
    if (ctx.opens.CountOf(ctx.caller.session) >= kMaxOpens && !was_described) {
      return ErrnoStatus(ENFILE, absl::StrCat("the client has ", kMaxOpens, " files open"));
    }
    ctx.effects.on_commit.push_back([&opens = ctx.opens, session = ctx.caller.session,
                                     inode = inode] { opens.Open(session, inode); });
  }
  if (create.unnamed()) {
    record->set_nlink(0);
    if (create.linkable()) record->set_flags(record->flags() | v1::INODE_FLAG_UNNAMED);
    PutOnOrphanList(ctx, inode);
  } else {
    AddEntry(ctx, parent, create.name(), inode, record->mode() & S_IFMT);
  }
  // (A session that has delegated the file, or had it before, counts on its token and its blocks.)
  const bool room = ctx.decided.reserved != nullptr || ctx.tokens.HasRoom(ctx.caller.session);
  if (create.token() == v1::TOKEN_EXCLUSIVE && create.open() && S_ISREG(record->mode()) && room) {
    absl::Status granted = GrantNewFile(ctx, inode, *record, create.allocate_bytes(),
                                        *reply.mutable_entry()->mutable_layout());
    if (!granted.ok()) return granted;
  }
  ctx.effects.described.push_back(inode);
  FillAttr(inode, *record, ctx.descriptor, *reply.mutable_entry()->mutable_attr());
  return absl::OkStatus();
}

// The first name of an inode that was made without one.
void TakeOffOrphanList(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record) {
  record.set_flags(record.flags() & ~std::uint32_t{v1::INODE_FLAG_UNNAMED});
  // A truncation under way needs the list still.
  if (record.truncated_from() == 0) ctx.txn.Delete(schema::OrphanKey(inode));
}

}  // namespace

absl::Status Lookup(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::Lookup& lookup = request.lookup();
  const InodeNumber parent(lookup.parent());
  // How the kernel finds the inode of a handle (open_by_handle_at, NFS): "." of any type.
  const absl::StatusOr<v1::InodeRecord*> directory =
      lookup.name() == "." ? ctx.txn.Inode(parent) : LiveDirectory(ctx.txn, parent);
  if (!directory.ok()) return directory.status();
  if (absl::Status valid = ValidateName(lookup.name()); !valid.ok()) return valid;
  ctx.effects.described.push_back(parent);
  const absl::StatusOr<InodeNumber> inode = Resolve(ctx.txn, parent, **directory, lookup.name());
  if (!inode.ok()) return inode.status();
  const absl::StatusOr<v1::InodeRecord*> record = NamedInode(ctx.txn, *inode);
  if (!record.ok()) return record.status();
  if (absl::Status recalled = ctx.RequireOthersAtMost(*inode, v1::TOKEN_SHARED); !recalled.ok()) {
    return recalled;
  }
  ctx.effects.described.push_back(*inode);
  v1::EntryReply& entry = *reply.mutable_entry();
  FillAttr(*inode, **record, ctx.descriptor, *entry.mutable_attr());
  if (!lookup.ahead()) return absl::OkStatus();
  v1::LayoutReply layout;
  const absl::StatusOr<bool> granted =
      GrantAtOnce(ctx, *inode, **record, lookup.layout_bytes(), v1::TOKEN_SHARED, layout);
  if (!granted.ok()) return granted.status();
  if (*granted) *entry.mutable_layout() = std::move(layout);
  return absl::OkStatus();
}

absl::Status Create(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::Create& create = request.create();
  if (absl::Status valid = ValidateCreate(create); !valid.ok()) return valid;
  const absl::StatusOr<Directory> parent = DirectoryToChange(ctx, create.parent(), false);
  if (create.unnamed()) {
    if (parent.ok()) return MakeAndName(ctx, create, *parent, reply);
    const bool removed = ErrnoOf(parent.status()) == ENOENT;
    return removed ? ErrnoStatus(EPERM, "the directory has been removed") : parent.status();
  }
  if (!parent.ok() && ErrnoOf(parent.status()) != EPERM) return parent.status();
  if (IsDots(create.name())) return ErrnoStatus(EEXIST);
  const absl::StatusOr<std::optional<Entry>> existing =
      FindEntry(ctx.txn, InodeNumber(create.parent()), create.name());
  if (!existing.ok()) return existing.status();
  if (existing->has_value()) return ErrnoStatus(EEXIST);
  if (!parent.ok()) return parent.status();
  if (absl::Status valid = CheckNewName(*parent, create.name()); !valid.ok()) return valid;
  const bool directory = S_ISDIR(create.mode());
  if (directory && parent->record->nlink() == std::numeric_limits<std::uint32_t>::max()) {
    return ErrnoStatus(EMLINK);
  }
  return MakeAndName(ctx, create, *parent, reply);
}

absl::Status Link(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::Link& link = request.link();
  const InodeNumber inode(link.inode());
  if (absl::Status valid = ValidateName(link.name()); !valid.ok()) return valid;
  const absl::StatusOr<v1::InodeRecord*> found = ctx.txn.Inode(inode);
  if (!found.ok()) return found.status();
  const absl::StatusOr<Directory> parent = DirectoryToChange(ctx, link.parent(), false);
  if (!parent.ok() && ErrnoOf(parent.status()) != EPERM) return parent.status();
  if (IsDots(link.name())) return ErrnoStatus(EEXIST);
  const absl::StatusOr<std::optional<Entry>> existing =
      FindEntry(ctx.txn, InodeNumber(link.parent()), link.name());
  if (!existing.ok()) return existing.status();
  if (existing->has_value()) return ErrnoStatus(EEXIST);
  if (!parent.ok()) return parent.status();
  if (absl::Status named = CheckNewName(*parent, link.name()); !named.ok()) return named;
  v1::InodeRecord& record = **found;
  if (S_ISDIR(record.mode())) return ErrnoStatus(EPERM, "a directory cannot have another name");
  if ((record.flags() & (v1::INODE_FLAG_IMMUTABLE | v1::INODE_FLAG_APPEND)) != 0) {
    return ErrnoStatus(EPERM, absl::StrCat("inode ", link.inode(), " is immutable or append-only"));
  }
  const bool unnamed = record.nlink() == 0 && (record.flags() & v1::INODE_FLAG_UNNAMED) != 0;
  if (record.nlink() == 0 && (!unnamed || record.removing()))
    return ErrnoStatus(ENOENT, "the file has been removed");
  if (record.nlink() >= kMaxLinks) {
    return ErrnoStatus(EMLINK, absl::StrCat("inode ", link.inode(), " has ", kMaxLinks, " names"));
  }
  if (absl::Status recalled = ctx.RequireOthersAtMost(inode, v1::TOKEN_SHARED); !recalled.ok()) {
    return recalled;
  }
  if (absl::Status same = RequireSameTree(ctx, record.project(), parent->record->project());
      !same.ok()) {
    return same;
  }
  if (unnamed) TakeOffOrphanList(ctx, inode, record);
  record.set_nlink(record.nlink() + 1);
  TouchChange(ctx, inode, record);
  AddEntry(ctx, *parent, link.name(), inode, record.mode() & S_IFMT);
  FillAttr(inode, record, ctx.descriptor, *reply.mutable_entry()->mutable_attr());
  return absl::OkStatus();
}

}  // namespace reel::mdc
