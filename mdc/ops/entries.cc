#include "mdc/ops/entries.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/ops/inode.h"
#include "proto/convert.h"
#include "proto/folded_name.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

void PutEntry(OpContext& ctx, const Directory& directory, std::string_view name,
              const Entry& entry) {
  const NameKey key(directory.record->flags(), name);
  v1::DirentRecord record;
  record.set_inode(entry.inode.value());
  record.set_type(entry.type);
  record.set_cookie(entry.cookie);
  if (key.view() != name) record.set_name(name.data(), name.size());
  ctx.txn.Put(schema::DirentKey(directory.inode, key.view()), record.SerializeAsString());
  record.clear_cookie();
  record.set_name(name.data(), name.size());
  ctx.txn.Put(schema::CookieKey(directory.inode, entry.cookie), record.SerializeAsString());
}

void CountEntries(OpContext& ctx, const Directory& directory, std::uint64_t entries) {
  directory.record->set_entries(entries);
  directory.record->set_size_bytes(entries * kEntryBytes);
  TouchContent(ctx, directory.inode, *directory.record);
}

void CountSubdirectory(const Directory& directory, int change) {
  directory.record->set_nlink(directory.record->nlink() + static_cast<std::uint32_t>(change));
}

}  // namespace

absl::StatusOr<Directory> DirectoryToChange(OpContext& ctx, std::uint64_t inode, bool removes) {
  const absl::StatusOr<v1::InodeRecord*> record = LiveDirectory(ctx.txn, InodeNumber(inode));
  if (!record.ok()) return record.status();
  const std::uint32_t forbidding = v1::INODE_FLAG_IMMUTABLE | (removes ? v1::INODE_FLAG_APPEND : 0);
  if (((*record)->flags() & forbidding) != 0) {
    return ErrnoStatus(EPERM, absl::StrCat("directory ", inode, " is immutable or append-only"));
  }
  return Directory{InodeNumber(inode), *record};
}

absl::Status CheckNewName(const Directory& directory, std::string_view name) {
  if (!FoldsNames(directory.record->flags())) return absl::OkStatus();
  return FoldName(name).status();
}

absl::StatusOr<std::optional<Entry>> FindEntry(Txn& txn, InodeNumber directory,
                                               std::string_view name) {
  const absl::StatusOr<v1::InodeRecord*> parent = txn.Inode(directory);
  if (!parent.ok()) return parent.status();
  const NameKey key((*parent)->flags(), name);
  const absl::StatusOr<std::optional<std::string>> stored =
      txn.Get(schema::DirentKey(directory, key.view()));
  if (!stored.ok()) return stored.status();
  if (!stored->has_value()) return std::optional<Entry>();
  v1::DirentRecord record;
  if (!record.ParseFromString(**stored) || record.inode() == 0 || record.cookie() < 3) {
    return DamagedRecord("an entry", directory);
  }
  return std::optional<Entry>(Entry{InodeNumber(record.inode()), record.type(), record.cookie()});
}

void AddEntry(OpContext& ctx, const Directory& directory, std::string_view name, InodeNumber inode,
              std::uint32_t type) {
  const std::uint64_t cookie = directory.record->next_cookie();
  directory.record->set_next_cookie(cookie + 1);
  PutEntry(ctx, directory, name, Entry{inode, type, cookie});
  if (S_ISDIR(type)) CountSubdirectory(directory, 1);
  CountEntries(ctx, directory, directory.record->entries() + 1);
}

void RemoveEntry(OpContext& ctx, const Directory& directory, std::string_view name,
                 const Entry& entry) {
  const NameKey key(directory.record->flags(), name);
  ctx.txn.Delete(schema::DirentKey(directory.inode, key.view()));
  ctx.txn.Delete(schema::CookieKey(directory.inode, entry.cookie));
  if (S_ISDIR(entry.type)) CountSubdirectory(directory, -1);
  CountEntries(ctx, directory, std::max<std::uint64_t>(directory.record->entries(), 1) - 1);
}

void ReplaceEntry(OpContext& ctx, const Directory& directory, std::string_view name,
                  const Entry& entry, InodeNumber inode, std::uint32_t type) {
  PutEntry(ctx, directory, name, Entry{inode, type, entry.cookie});
  if (S_ISDIR(entry.type)) CountSubdirectory(directory, -1);
  if (S_ISDIR(type)) CountSubdirectory(directory, 1);
  TouchContent(ctx, directory.inode, *directory.record);
}

}  // namespace reel::mdc
