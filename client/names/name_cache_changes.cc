// What the replies to this client's own changes say of names.
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>

#include "client/names/name_cache.h"

namespace reel::client {

// A reply that says nothing of the directory is a stored one, sent again after a lost stream: what
// was read since then is newer.
bool NameCache::Describes(const v1::Reply& reply, std::uint64_t directory) {
  return std::any_of(reply.changed().begin(), reply.changed().end(),
                     [&](const v1::Attr& changed) { return changed.inode() == directory; });
}

void NameCache::NameChanged(const v1::Reply& reply, std::uint64_t directory,
                            const std::string& name, std::uint64_t inode) {
  Node* const node = Find(directory);
  if (node == nullptr) return;
  if (Describes(reply, directory)) return SetName(*node, name, inode);
  ForgetName(*node, name);
}

void NameCache::Created(const v1::Create& create, const v1::Reply& reply) {
  const std::uint64_t inode = reply.entry().attr().inode();
  if (!create.unnamed()) NameChanged(reply, create.parent(), create.name(), inode);
  const bool just_made = std::find(reply.cacheable().begin(), reply.cacheable().end(), inode) !=
                         reply.cacheable().end();
  Node* const child = just_made ? Find(inode) : nullptr;
  if (child == nullptr) return;
  // A new directory holds what this client puts into it, until others are let in.
  child->complete = S_ISDIR(reply.entry().attr().mode());
  Node* const directory = create.unnamed() ? nullptr : Find(create.parent());
  if (directory != nullptr) Delegations::NoteMade(directory->delegation, child->sole);
}

void NameCache::Renamed(const v1::Rename& rename, const v1::Reply& reply) {
  Node* const from = Find(rename.parent());
  Node* const to = Find(rename.new_parent());
  const auto known = [](Node* node, const std::string& name) {
    if (node == nullptr) return std::optional<std::uint64_t>();
    const auto entry = FindName(*node, name);
    if (entry != node->names.end()) return std::optional(entry->second);
    return IsComplete(*node) ? std::optional<std::uint64_t>(0) : std::nullopt;
  };
  const auto moved = known(from, rename.name());
  const auto replaced = known(to, rename.new_name());
  for (const auto& inode : {moved, replaced}) {
    if (Node* const node = inode ? Find(*inode) : nullptr) node->sole.NoteOtherName();
  }
  if (moved && moved == replaced) return;  // two names of one inode: rename(2) leaves both
  const bool describes = Describes(reply, rename.parent()) && Describes(reply, rename.new_parent());
  if (describes && moved && *moved != 0 && replaced) {
    const bool exchange = (rename.flags() & RENAME_EXCHANGE) != 0;
    const std::uint64_t whiteout = reply.entry().attr().inode();  // 0: none was asked for
    SetName(*from, rename.name(), exchange ? *replaced : whiteout);
    SetName(*to, rename.new_name(), *moved);
    return;
  }
  for (const auto& [node, name] : {std::pair(from, rename.name()), {to, rename.new_name()}}) {
    if (node != nullptr) ForgetName(*node, name);
  }
}

}  // namespace reel::client
