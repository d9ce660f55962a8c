// Names that are made and removed here before the controller knows, in directories that this client
// holds alone.
//
// What such a change leaves behind is what the controller will make of it: times are its own, a
// directory counts its entries and changes. While one is on its way, what replies say of the
// directory is older than what is known, but the answer to the last one.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/names/name_cache.h"
#include "proto/convert.h"
#include "proto/protocol.h"
#include "proto/times.h"

namespace reel::client {
namespace {

// So many at first, and for each that is used up, until there are kMaxUnborn.
constexpr std::uint32_t kFirstUnborn = 4;
constexpr std::uint32_t kMoreUnborn = 2;

// Small steps back of the hosts' clocks do not show; but a clock that was far ahead is no reason
// for others to date what they make in the future, too.
v1::Time NextTime(const v1::Time& than, const v1::Time& now) {
  constexpr std::int64_t kSkewSeconds = 10;
  return than.seconds() > now.seconds() + kSkewSeconds ? now : LaterThan(than, now);
}

v1::LayoutReply LayoutOf(const v1::Unborn& unborn, const v1::Attr& attr) {
  v1::LayoutReply layout;
  layout.set_mode(v1::TOKEN_EXCLUSIVE);
  *layout.mutable_extents() = unborn.extents();
  std::uint64_t length_blocks = 0;
  for (const v1::Extent& extent : unborn.extents()) length_blocks += extent.length_blocks();
  layout.set_length_blocks(length_blocks);
  *layout.mutable_attr() = attr;
  return layout;
}

}  // namespace

NameCache::Node* NameCache::FindAlone(std::uint64_t directory) {
  Node* const node = Find(directory);
  const bool alone = node != nullptr && node->alone != 0 && node->attr && node->attr->nlink > 0 &&
                     !own_changes_.TouchNamesOf(directory) && !own_changes_.TouchInode(directory) &&
                     // Else it is told to forget them first.
                     node->view.attributes() != Shown::kKept;
  return alone ? node : nullptr;
}

std::uint32_t NameCache::UnbornWanted(std::uint64_t directory) {
  MutexLock lock(mutex_);
  const Node* const node = Find(directory);
  return node == nullptr || !node->unborn.empty() ? 0 : kFirstUnborn;
}

std::optional<v1::Attr> NameCache::CreateAhead(
    v1::Create& create, const v1::Credentials& owner, const v1::Time& now,
    absl::FunctionRef<std::uint64_t(const v1::EntryReply& made, const v1::Redo& as_told)> send) {
  MutexLock lock(mutex_);
  Node* const directory = FindAlone(create.parent());
  if (directory == nullptr || directory->unborn.empty()) return std::nullopt;
  const auto entry = directory->names.find(create.name());
  const bool absent = entry == directory->names.end() ? directory->complete : entry->second == 0;
  // What a directory passes on to what is made in it is the controller's business.
  const Attributes& parent = *directory->attr;
  const bool plain = parent.flags == 0 && !parent.xattrs && (parent.mode & S_ISGID) == 0;
  if (!absent || !plain || !ValidateName(create.name()).ok()) return std::nullopt;

  const v1::Unborn unborn = directory->unborn.front();
  const v1::Time time = NextTime(ToProto(parent.ctime), now);
  v1::EntryReply made;
  v1::Attr& attr = *made.mutable_attr();
  attr.set_inode(unborn.inode());
  attr.set_generation(unborn.generation());
  attr.set_mode(S_IFREG | (create.mode() & 07777 & ~create.umask()));
  attr.set_nlink(1);
  attr.set_uid(owner.uid());
  attr.set_gid(owner.gid());
  attr.set_allocated_bytes(unborn.allocated_bytes());
  attr.set_change(1);
  attr.set_project(parent.project);
  for (v1::Time* of :
       {attr.mutable_atime(), attr.mutable_mtime(), attr.mutable_ctime(), attr.mutable_btime()}) {
    *of = time;
  }
  *made.mutable_layout() = LayoutOf(unborn, attr);
  v1::Redo as_told;
  *as_told.mutable_time() = time;
  as_told.set_inode(unborn.inode());
  as_told.set_generation(unborn.generation());
  *as_told.mutable_extents() = unborn.extents();
  const std::uint32_t missing =
      static_cast<std::uint32_t>(kMaxUnborn - std::min(kMaxUnborn, directory->unborn.size() - 1));
  create.set_unborn(std::min(missing, kMoreUnborn));
  if (send(made, as_told) == 0) return std::nullopt;

  directory->unborn.pop_front();
  const std::uint64_t alone = directory->alone;
  SetName(*directory, create.name(), unborn.inode());
  TouchAhead(create.parent(), *directory, time, 1);
  Hold(unborn.inode());
  if (Node* const child = Find(unborn.inode())) {
    child->attr = attr;
    child->made_in = alone;
  }
  return attr;
}

bool NameCache::UnlinkAhead(
    const v1::Unlink& unlink, const v1::Time& now,
    absl::FunctionRef<std::uint64_t(v1::Attr& removed, const v1::Redo& as_told)> send) {
  MutexLock lock(mutex_);
  Node* const directory = FindAlone(unlink.parent());
  if (directory == nullptr || directory->attr->flags != 0 || unlink.directory()) return false;
  const auto entry = directory->names.find(unlink.name());
  if (entry == directory->names.end() || entry->second == 0) return false;
  const std::uint64_t inode = entry->second;
  Node* const child = Find(inode);
  if (child == nullptr || !child->attr || child->made_in != directory->alone ||
      !S_ISREG(child->attr->mode) || child->attr->nlink != 1 || child->attr->flags != 0 ||
      own_changes_.TouchInode(inode)) {
    return false;
  }
  v1::Redo as_told;
  *as_told.mutable_time() =
      NextTime(ToProto(child->attr->ctime), NextTime(ToProto(directory->attr->ctime), now));
  v1::Attr removed = child->attr->ToProto();
  removed.set_nlink(0);
  removed.set_change(removed.change() + 1);
  *removed.mutable_ctime() = as_told.time();
  if (send(removed, as_told) == 0) return false;

  SetName(*directory, unlink.name(), 0);
  TouchAhead(unlink.parent(), *directory, as_told.time(), -1);
  child->removed = true;
  child->attr = removed;
  return true;
}

void NameCache::TouchAhead(std::uint64_t directory, Node& node, const v1::Time& time, int entries) {
  ++ahead_[directory];
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
    if (ahead_.contains(attr.inode)) return;
    const Node* const node = Find(attr.inode);
    if (node != nullptr && node->removed && attr.nlink > 0) return;
    if (node != nullptr && node->attr && node->attr->change > attr.change) return;
  }
  SetAttr(attr);
}

void NameCache::HoldAlone(const v1::Reply& reply) {
  for (const std::uint64_t inode : reply.exclusive()) {
    Node* const node = Find(inode);
    if (node != nullptr && node->alone == 0) node->alone = ++last_alone_;
  }
}

void NameCache::TakeUnborn(const v1::Request& request, const v1::Reply& reply) {
  const v1::Create& create = request.create();
  Node* const directory = Find(create.parent());
  if (directory == nullptr || directory->alone == 0) return;
  // It has asked as one that has none: what came meanwhile is not the client's any more.
  if (!request.has_foretold() && create.unborn() > 0) directory->unborn.clear();
  directory->unborn.insert(directory->unborn.end(), reply.unborn().begin(), reply.unborn().end());
}

void NameCache::CameOut(const v1::Request& request, const v1::Reply& reply) {
  const std::uint64_t parent =
      request.has_create() ? request.create().parent() : request.unlink().parent();
  ++space_changes_;
  bool last = true;
  if (const auto ahead = ahead_.find(parent); ahead != ahead_.end()) {
    last = --ahead->second == 0;
    if (last) ahead_.erase(ahead);
  }
  const std::uint64_t made = request.has_create() ? request.foretold().inode() : 0;
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
  HoldAlone(reply);
  if (request.has_create()) TakeUnborn(request, reply);
  Shrink();
}

}  // namespace reel::client
