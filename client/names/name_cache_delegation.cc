// Names that are made and removed here before the controller knows, in directories
// delegated to this client.
//
// What such a change leaves behind is what the controller will make of it: times are its own, a
// directory counts its entries and changes. While one is on its way, what replies say of the
// directory is older than what is known, but the answer to the last one.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/names/name_cache.h"
#include "proto/convert.h"

namespace reel::client {
NameCache::Node* NameCache::FindDelegated(std::uint64_t directory) {
  Node* const node = Find(directory);
  const bool is_delegated = node != nullptr && node->delegation.delegated() && node->attr &&
                            node->attr->nlink > 0 && !pending_changes_.TouchNamesOf(directory) &&
                            !pending_changes_.TouchInode(directory) &&
                            // Else it is told to forget them first.
                            node->view.attributes() != Shown::kKept;
  return is_delegated ? node : nullptr;
}

std::uint32_t NameCache::ReservedInodesWanted(std::uint64_t directory) {
  MutexLock lock(mutex_);
  const Node* const node = Find(directory);
  return node == nullptr ? 0 : node->delegation.WantedByWaiting();
}

std::optional<v1::Attr> NameCache::CreateDelegated(
    v1::Create& create, const v1::Credentials& owner, const v1::Time& now,
    absl::FunctionRef<std::uint64_t(const v1::EntryReply& made, const v1::Replay& decided)> send) {
  MutexLock lock(mutex_);
  Node* const directory = FindDelegated(create.parent());
  if (directory == nullptr || !directory->delegation.has_reserved()) return std::nullopt;
  const auto entry = FindName(*directory, create.name());
  const bool absent = entry == directory->names.end() ? IsComplete(*directory) : entry->second == 0;
  // What a directory passes on to what is made in it is the controller's business.
  const Attributes& parent = *directory->attr;
  const bool plain = parent.flags == 0 && !parent.xattrs && (parent.mode & S_ISGID) == 0;
  if (!absent || !plain || !ValidateName(create.name()).ok()) return std::nullopt;
  if (!directory->delegation.MayMakeFor(owner.uid(), owner.gid())) return std::nullopt;

  const std::uint64_t inode = directory->delegation.next_reserved().inode();
  const DelegatedFile file =
      MakeDelegated(directory->delegation.next_reserved(), create, owner, parent, now);
  create.set_reserved_inodes(directory->delegation.WantedByDelegated());
  if (send(file.made, file.decided) == 0) return std::nullopt;

  Delegations::TakeReserved(directory->delegation);
  SetName(*directory, create.name(), inode);
  TouchDelegated(create.parent(), *directory, file.decided.time(), 1);
  Hold(inode);
  if (Node* const child = Find(inode)) {
    child->attr = file.made.attr();
    Delegations::NoteMade(directory->delegation, child->made);
  }
  return file.made.attr();
}

bool NameCache::UnlinkDelegated(
    const v1::Unlink& unlink, const v1::Time& now,
    absl::FunctionRef<std::uint64_t(v1::Attr& removed, const v1::Replay& decided)> send) {
  MutexLock lock(mutex_);
  Node* const directory = FindDelegated(unlink.parent());
  if (directory == nullptr || directory->attr->flags != 0 || unlink.directory()) return false;
  const auto entry = FindName(*directory, unlink.name());
  if (entry == directory->names.end() || entry->second == 0) return false;
  const std::uint64_t inode = entry->second;
  Node* const child = Find(inode);
  if (child == nullptr || !child->attr ||
      !Delegations::WasMadeIn(directory->delegation, child->made) || !S_ISREG(child->attr->mode) ||
      child->attr->nlink != 1 || child->attr->flags != 0 || pending_changes_.TouchInode(inode)) {
    return false;
  }
  v1::Replay decided;
  *decided.mutable_time() =
      DelegatedTime(child->attr->ctime, DelegatedTime(directory->attr->ctime, now));
  v1::Attr removed = child->attr->ToProto();
  removed.set_nlink(0);
  removed.set_change(removed.change() + 1);
  *removed.mutable_ctime() = decided.time();
  if (send(removed, decided) == 0) return false;

  SetName(*directory, unlink.name(), 0);
  TouchDelegated(unlink.parent(), *directory, decided.time(), -1);
  child->made.NoteRemoved();
  child->attr = removed;
  return true;
}

void NameCache::TouchDelegated(std::uint64_t directory, Node& node, const v1::Time& time,
                               int entries) {
  delegations_.NoteSent(directory);
  DropPages(node);
  node.listed_to = 0;
  Attributes& attr = *node.attr;
  attr.size_bytes += static_cast<std::uint64_t>(entries) * kEntryBytes;
  ++attr.change;
  attr.mtime = attr.ctime = {.seconds = time.seconds(), .nanoseconds = time.nanoseconds()};
  Use(node);
}

void NameCache::LearnAttr(const Attributes& attr) {
  if (attr.mode != 0) {
    if (delegations_.HasUnanswered(attr.inode)) return;
    const Node* const node = Find(attr.inode);
    if (node != nullptr && node->made.removed() && attr.nlink > 0) return;
    if (node != nullptr && node->attr && node->attr->change > attr.change) return;
  }
  SetAttr(attr);
}

void NameCache::TakeDelegations(const v1::Reply& reply) {
  for (const std::uint64_t inode : reply.exclusive()) {
    Node* const node = Find(inode);
    if (node != nullptr) delegations_.Begin(node->delegation);
  }
}

void NameCache::TakeReservedInodes(const v1::Request& request, const v1::Reply& reply) {
  const v1::Create& create = request.create();
  Node* const directory = Find(create.parent());
  if (directory == nullptr) return;
  // It has asked as one that has none: what came meanwhile is not the client's any more.
  const bool anew = !request.has_delegated() && create.reserved_inodes() > 0;
  Delegations::Reserve(directory->delegation, anew, reply.reserved_inodes());
}

void NameCache::DelegatedAnswered(const v1::Request& request, const v1::Reply& reply) {
  const std::uint64_t parent =
      request.has_create() ? request.create().parent() : request.unlink().parent();
  ++space_changes_;
  const bool last = delegations_.NoteAnswered(parent);
  const std::uint64_t made = request.has_create() ? request.delegated().inode() : 0;
  const auto& held = reply.cacheable();
  if (made != 0 && std::find(held.begin(), held.end(), made) == held.end()) Drop(made);
  if (reply.error() != 0) {  // what is known of the directory is not so
    GiveBack(parent);
    return;
  }
  for (const std::uint64_t inode : reply.cacheable()) Hold(inode);
  for (const v1::Attr& attr : reply.changed()) {
    const bool older = attr.inode() == parent && !last;
    if (!older) LearnAttr(attr);
  }
  TakeDelegations(reply);
  if (request.has_create()) TakeReservedInodes(request, reply);
  Shrink();
}

}  // namespace reel::client
