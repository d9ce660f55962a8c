#include <linux/fs.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/entries.h"
#include "mdc/ops/inode.h"
#include "mdc/ops/names.h"
#include "mdc/ops/new_inode.h"
#include "mdc/ops/quota.h"
#include "mdc/ops/removal.h"
#include "proto/convert.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// How often a long look for a loop begins anew because a directory has moved meanwhile.
constexpr std::uint32_t kMaxLost = 100;

// One end of a rename.
struct End {
  Directory directory;
  const std::string& name;
  std::optional<Entry> entry;
  v1::InodeRecord* record = nullptr;  // of the entry's inode

  bool is_directory() const { return S_ISDIR(record->mode()); }
};

absl::StatusOr<End> FindEnd(OpContext& ctx, std::uint64_t parent, const std::string& name) {
  const absl::StatusOr<v1::InodeRecord*> directory = LiveDirectory(ctx.txn, InodeNumber(parent));
  if (!directory.ok()) return directory.status();
  if (name == "." || name == "..") return ErrnoStatus(EBUSY, "\".\" and \"..\" cannot be renamed");
  const absl::StatusOr<std::optional<Entry>> entry = FindEntry(ctx.txn, InodeNumber(parent), name);
  if (!entry.ok()) return entry.status();
  return End{{InodeNumber(parent), *directory}, name, *entry};
}

// More ancestors than there are inodes are a loop.
absl::Status CheckLevels(OpContext& ctx, const LoopWalk& walk) {
  const absl::StatusOr<v1::VolumeRecord> volume = VolumeCounts(ctx.txn);
  if (!volume.ok()) return volume.status();
  return walk.levels > volume->inodes() + kStepLevels
             ? DamagedRecord("the chain of parents", walk.from)
             : absl::OkStatus();
}

// Whether `inode` is `ancestor` or lies below it; sets ctx.unfinished where that takes another
// step.
absl::StatusOr<bool> IsBelow(OpContext& ctx, LoopWalk& walk, InodeNumber inode,
                             InodeNumber ancestor) {
  const std::uint64_t moves = *ctx.directory_moves;
  if (walk.from != inode || walk.ancestor != ancestor || walk.moves != moves) {
    // Somebody moves directories as fast as this one's ancestors are looked at.
    const std::uint32_t lost = walk.lost + (walk.levels >= kStepLevels ? 1 : 0);
    if (lost > kMaxLost) return ErrnoStatus(EBUSY, "directories above it are being moved");
    walk = {inode, ancestor, inode, 0, moves, lost};
  }
  for (const std::uint64_t end = walk.levels + kStepLevels; walk.levels < end; ++walk.levels) {
    if (walk.at == ancestor) return true;
    if (walk.at == kRootInode) return false;
    const absl::StatusOr<v1::InodeRecord*> record = NamedInode(ctx.txn, walk.at);
    if (!record.ok()) return record.status();
    walk.at = InodeNumber((*record)->parent());
  }
  ctx.unfinished = true;
  if (absl::Status levels = CheckLevels(ctx, walk); !levels.ok()) return levels;
  return false;
}

// EINVAL when the directory that moves would come to lie below itself. Where it sets
// ctx.unfinished, nobody knows yet.
absl::Status CheckLoop(OpContext& ctx, std::size_t which, const End& moving, const Directory& to) {
  if (!moving.is_directory() || moving.directory.inode == to.inode) return absl::OkStatus();
  LoopWalk unkept;
  LoopWalk& walk = ctx.walks != nullptr ? (*ctx.walks)[which] : unkept;
  const absl::StatusOr<bool> below = IsBelow(ctx, walk, to.inode, moving.entry->inode);
  if (!below.ok()) return below.status();
  if (*below) return ErrnoStatus(EINVAL, "a directory cannot move into itself");
  return absl::OkStatus();
}

// Loads the inode that the end's entry names, and checks that the entry may change.
absl::Status CheckChangeable(OpContext& ctx, End& end) {
  if (absl::Status changeable = DirectoryToChange(ctx, end.directory.inode.value(), true).status();
      !changeable.ok()) {
    return changeable;
  }
  const absl::StatusOr<v1::InodeRecord*> record = InodeToUnlink(ctx, *end.entry);
  if (record.ok()) end.record = *record;
  return record.status();
}

void SetParent(OpContext& ctx, End& end, const Directory& parent) {
  if (end.is_directory()) {
    if (end.record->parent() != parent.inode.value()) {
      ctx.effects.on_commit.push_back([moves = ctx.directory_moves] { ++*moves; });
    }
    end.record->set_parent(parent.inode.value());
  } else if (S_ISREG(end.record->mode())) {
    end.record->set_directory(parent.inode.value());  // where it grows, and who may take its name
  }
}

// EXDEV where what moves would come into another tree.
absl::Status CheckTree(OpContext& ctx, const End& moving, const Directory& from,
                       const Directory& to) {
  if (from.inode == to.inode) return absl::OkStatus();
  return RequireSameTree(ctx, moving.record->project(), to.record->project());
}

absl::Status Exchange(OpContext& ctx, End& from, End& to) {
  if (absl::Status changeable = CheckChangeable(ctx, to); !changeable.ok()) return changeable;
  const absl::Status loop = CheckLoop(ctx, 1, to, from.directory);
  if (!loop.ok() || ctx.unfinished) return loop;
  if (absl::Status same = CheckTree(ctx, to, to.directory, from.directory); !same.ok()) return same;
  ReplaceEntry(ctx, from.directory, from.name, *from.entry, to.entry->inode, to.entry->type);
  ReplaceEntry(ctx, to.directory, to.name, *to.entry, from.entry->inode, from.entry->type);
  SetParent(ctx, from, to.directory);
  SetParent(ctx, to, from.directory);
  TouchChange(ctx, from.entry->inode, *from.record);
  TouchChange(ctx, to.entry->inode, *to.record);
  return absl::OkStatus();
}

// The old name goes, or with RENAME_WHITEOUT stands for a new character device 0:0 from now on, by
// which a union file system knows that the name hides one below it.
absl::Status GiveUpName(OpContext& ctx, const End& from, bool whiteout, v1::Reply& reply) {
  if (!whiteout) {
    RemoveEntry(ctx, from.directory, from.name, *from.entry);
    return absl::OkStatus();
  }
  v1::Create create;
  create.set_mode(S_IFCHR);
  const absl::StatusOr<NewInode> made = MakeInode(ctx, create, from.directory);
  if (!made.ok()) return made.status();
  ReplaceEntry(ctx, from.directory, from.name, *from.entry, made->inode, S_IFCHR);
  ctx.effects.described.push_back(made->inode);
  FillAttr(made->inode, *made->record, ctx.descriptor, *reply.mutable_entry()->mutable_attr());
  return absl::OkStatus();
}

// Moves onto a name that exists: its inode loses that name.
absl::Status Replace(OpContext& ctx, End& from, End& to, bool whiteout, v1::Reply& reply) {
  if (absl::Status changeable = CheckChangeable(ctx, to); !changeable.ok()) return changeable;
  if (from.is_directory() && !to.is_directory()) return ErrnoStatus(ENOTDIR);
  if (!from.is_directory() && to.is_directory()) return ErrnoStatus(EISDIR);
  if (to.is_directory()) {
    if (absl::Status undelegated = ctx.RequireUndelegated(to.entry->inode); !undelegated.ok())
      return undelegated;
    if (to.record->entries() != 0) return ErrnoStatus(ENOTEMPTY);
  }
  if (absl::Status given = GiveUpName(ctx, from, whiteout, reply); !given.ok()) return given;
  ReplaceEntry(ctx, to.directory, to.name, *to.entry, from.entry->inode, from.entry->type);
  SetParent(ctx, from, to.directory);
  TouchChange(ctx, from.entry->inode, *from.record);
  return TakeName(ctx, to.entry->inode, *to.record);
}

absl::Status Move(OpContext& ctx, End& from, End& to, bool whiteout, v1::Reply& reply) {
  if (absl::Status changeable = DirectoryToChange(ctx, to.directory.inode.value(), false).status();
      !changeable.ok()) {
    return changeable;
  }
  if (absl::Status given = GiveUpName(ctx, from, whiteout, reply); !given.ok()) return given;
  AddEntry(ctx, to.directory, to.name, from.entry->inode, from.entry->type);
  SetParent(ctx, from, to.directory);
  TouchChange(ctx, from.entry->inode, *from.record);
  return absl::OkStatus();
}

}  // namespace

absl::Status Rename(OpContext& ctx, const v1::Request& request, v1::Reply& reply) {
  const v1::Rename& rename = request.rename();
  const bool exchange = (rename.flags() & RENAME_EXCHANGE) != 0;
  const bool no_replace = (rename.flags() & RENAME_NOREPLACE) != 0;
  const bool whiteout = (rename.flags() & RENAME_WHITEOUT) != 0;
  if ((rename.flags() & ~std::uint32_t{RENAME_EXCHANGE | RENAME_NOREPLACE | RENAME_WHITEOUT}) !=
          0 ||
      (exchange && (no_replace || whiteout))) {
    return ErrnoStatus(EINVAL, absl::StrCat("rename flags ", rename.flags(), " are not supported"));
  }
  if (absl::Status valid = ValidateName(rename.name()); !valid.ok()) return valid;
  if (absl::Status valid = ValidateName(rename.new_name()); !valid.ok()) return valid;
  absl::StatusOr<End> from = FindEnd(ctx, rename.parent(), rename.name());
  if (!from.ok()) return from.status();
  absl::StatusOr<End> to = FindEnd(ctx, rename.new_parent(), rename.new_name());
  if (!to.ok()) return to.status();
  if (!from->entry.has_value()) return ErrnoStatus(ENOENT);
  if (absl::Status valid = CheckNewName(to->directory, rename.new_name()); !valid.ok())
    return valid;
  if (to->entry.has_value() && no_replace) return ErrnoStatus(EEXIST);
  if (!to->entry.has_value() && exchange) return ErrnoStatus(ENOENT);
  // Two names of one inode: rename(2) leaves both.
  if (to->entry.has_value() && to->entry->inode == from->entry->inode) return absl::OkStatus();

  const bool lengthens = !to->entry.has_value() && rename.new_name().size() > rename.name().size();
  if (ctx.store.spent && lengthens) return StoreIsFull();

  if (absl::Status changeable = CheckChangeable(ctx, *from); !changeable.ok()) return changeable;
  ctx.effects.lets_go = rename.lets_go();
  const absl::Status loop = CheckLoop(ctx, 0, *from, to->directory);
  if (!loop.ok() || ctx.unfinished) return loop;
  if (absl::Status same = CheckTree(ctx, *from, from->directory, to->directory); !same.ok())
    return same;
  if (exchange) return Exchange(ctx, *from, *to);
  return to->entry.has_value() ? Replace(ctx, *from, *to, whiteout, reply)
                               : Move(ctx, *from, *to, whiteout, reply);
}

}  // namespace reel::mdc
