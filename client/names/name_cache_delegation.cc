// Names that are made, moved and removed here before the controller knows, in directories
// delegated to this client.
//
// What such a change leaves behind is what the controller will make of it: times are its own, a
// directory counts its entries and changes. While one is on its way, what replies say of the
// directory, and of an inode that moves, is older than what is known, but the answer to the last
// one.
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "client/names/name_cache.h"
#include "proto/convert.h"
#include "proto/inode_flags.h"
#include "proto/protocol.h"

namespace reel::client {
namespace {

// So many names are looked at for each file to ask about.
constexpr int kLookedAtForOne = 8;
// Of a rename(2) that is delegated.
constexpr std::uint32_t kKnownFlags = RENAME_NOREPLACE;
// The controller refuses one that would count beyond 32 bits.
constexpr std::uint32_t kMostDelegatedLinks = std::uint32_t{1} << 31;
// … and a symbolic link with a longer target than PATH_MAX allows.
constexpr std::size_t kMaxDelegatedTarget = 4095;

// The directory in which the request makes, takes or moves a name.
std::uint64_t DirectoryOf(const v1::Request& request) {
  return request.has_create()   ? request.create().parent()
         : request.has_rename() ? request.rename().parent()
                                : request.unlink().parent();
}

v1::Attr RemovedAt(const Attributes& attr, const v1::Time& time) {
  v1::Attr removed = attr.ToProto();
  removed.set_nlink(0);
  removed.set_change(removed.change() + 1);
  *removed.mutable_ctime() = time;
  return removed;
}

}  // namespace

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
  // What a directory passes on to what is made in it is the controller's business.
  const Attributes& parent = *directory->attr;
  const bool plain = parent.flags == 0 && !parent.xattrs && (parent.mode & S_ISGID) == 0;
  if (!plain || !IsAbsent(*directory, create.name()) || !ValidateName(create.name()).ok()) {
    return std::nullopt;
  }
  const std::string& target = create.symlink();
  if (S_ISLNK(create.mode()) && (target.empty() || target.size() > kMaxDelegatedTarget)) {
    return std::nullopt;
  }
  const bool makes_directory = S_ISDIR(create.mode());
  if (makes_directory && parent.nlink >= kMostDelegatedLinks) return std::nullopt;
  if (!directory->delegation.MayMakeFor(owner.uid(), owner.gid())) return std::nullopt;

  const std::uint64_t inode = directory->delegation.next_reserved().inode();
  const DelegatedFile file =
      MakeDelegated(directory->delegation.next_reserved(), create, owner, parent, now);
  create.set_reserved_inodes(directory->delegation.WantedByDelegated());
  if (send(file.made, file.decided) == 0) return std::nullopt;

  Delegations::TakeReserved(directory->delegation);
  SetName(*directory, create.name(), inode);
  TouchDelegated(create.parent(), *directory, file.decided.time(),
                 {.entries = 1, .subdirectories = makes_directory ? 1 : 0});
  Hold(inode);
  if (Node* const child = Find(inode)) {
    child->attr = file.made.attr();
    child->complete = makes_directory;
    if (S_ISLNK(create.mode())) child->link = create.symlink();
    Delegations::NoteMade(directory->delegation, child->sole);
  }
  return file.made.attr();
}

bool NameCache::IsAbsent(Node& directory, std::string_view name) {
  const auto entry = FindName(directory, name);
  return entry == directory.names.end() ? IsComplete(directory) : entry->second == 0;
}

// (A symbolic link is sole only where it was made: others may look at one without asking for the
// directory's delegation.)
bool NameCache::IsSole(const Node& directory, const Node& child) const {
  return child.attr && Delegations::IsSole(directory.delegation, child.sole) &&
         (S_ISREG(child.attr->mode) || S_ISLNK(child.attr->mode)) && child.attr->nlink == 1 &&
         !HasRules(child.attr->flags) && !pending_changes_.TouchInode(child.attr->inode);
}

bool NameCache::IsEmptyDelegated(std::uint64_t inode) {
  const Node* const node = FindDelegated(inode);
  return node != nullptr && S_ISDIR(node->attr->mode) && node->attr->flags == 0 &&
         node->attr->size_bytes == 0;
}

bool NameCache::UnlinkDelegated(
    const v1::Unlink& unlink, const v1::Time& now,
    absl::FunctionRef<std::uint64_t(v1::Attr& removed, bool only_here, const v1::Replay& decided)>
        send) {
  MutexLock lock(mutex_);
  Node* const directory = FindDelegated(unlink.parent());
  if (directory == nullptr || directory->attr->flags != 0) return false;
  const auto entry = FindName(*directory, unlink.name());
  if (entry == directory->names.end() || entry->second == 0) return false;
  const std::uint64_t inode = entry->second;
  Node* const child = Find(inode);
  if (child == nullptr) return false;
  if (unlink.directory() ? !IsEmptyDelegated(inode) : !IsSole(*directory, *child)) return false;

  v1::Replay decided;
  *decided.mutable_time() =
      DelegatedTime(child->attr->ctime, DelegatedTime(directory->attr->ctime, now));
  v1::Attr removed = RemovedAt(*child->attr, decided.time());
  const bool only_here = Delegations::IsOnlyHere(directory->delegation, child->sole);
  if (send(removed, only_here, decided) == 0) return false;

  SetName(*directory, unlink.name(), 0);
  TouchDelegated(unlink.parent(), *directory, decided.time(),
                 {.entries = -1, .subdirectories = unlink.directory() ? -1 : 0});
  RemoveDelegated(*child, removed);
  return true;
}

std::optional<NameCache::RenamedHere> NameCache::RenameDelegated(
    const v1::Rename& rename, bool may_replace, const v1::Time& now,
    absl::FunctionRef<std::uint64_t(v1::Attr* replaced, bool only_here, const v1::Replay& decided)>
        send) {
  if (rename.parent() != rename.new_parent() || (rename.flags() & ~kKnownFlags) != 0) return {};
  MutexLock lock(mutex_);
  Node* const directory = FindDelegated(rename.parent());
  if (directory == nullptr || directory->attr->flags != 0) return {};
  const auto entry = FindName(*directory, rename.name());
  if (entry == directory->names.end() || entry->second == 0) return {};
  const std::uint64_t inode = entry->second;
  Node* const moving = Find(inode);
  if (moving == nullptr || !IsSole(*directory, *moving)) return {};
  Node* replaced = nullptr;
  if (!IsAbsent(*directory, rename.new_name())) {
    const auto other = FindName(*directory, rename.new_name());
    const bool known = other != directory->names.end() && rename.flags() == 0 && may_replace;
    replaced = known && other->second != inode ? Find(other->second) : nullptr;
    if (replaced == nullptr || !IsSole(*directory, *replaced)) return {};
  } else if (!ValidateName(rename.new_name()).ok()) {
    return {};
  }

  v1::Replay decided;
  decided.set_moves(inode);
  v1::Time time = DelegatedTime(moving->attr->ctime, DelegatedTime(directory->attr->ctime, now));
  if (replaced != nullptr) time = DelegatedTime(replaced->attr->ctime, time);
  *decided.mutable_time() = time;
  v1::Attr removed;
  if (replaced != nullptr) removed = RemovedAt(*replaced->attr, time);
  const bool only_here =
      replaced != nullptr && Delegations::IsOnlyHere(directory->delegation, replaced->sole);
  if (send(replaced != nullptr ? &removed : nullptr, only_here, decided) == 0) return {};

  SetName(*directory, rename.name(), 0);
  SetName(*directory, rename.new_name(), inode);
  // The old name goes, and the new one is made: two changes.
  TouchDelegated(rename.parent(), *directory, time,
                 {.entries = replaced != nullptr ? -1 : 0, .changes = 2});
  delegations_.NoteSent(inode);
  ++moving->attr->change;
  moving->attr->ctime = {.seconds = time.seconds(), .nanoseconds = time.nanoseconds()};
  if (replaced != nullptr) RemoveDelegated(*replaced, removed);
  return RenamedHere{.forget = moving->view.TakeAttributes() ? inode : 0};
}

void NameCache::RemoveDelegated(Node& child, const v1::Attr& removed) {
  Delegations::End(child.delegation);
  child.sole.NoteRemoved();
  child.attr = removed;
}

void NameCache::TouchDelegated(std::uint64_t directory, Node& node, const v1::Time& time,
                               const Touch& touch) {
  delegations_.NoteSent(directory);
  DropPages(node);
  node.listed_to = 0;
  Attributes& attr = *node.attr;
  attr.size_bytes += static_cast<std::uint64_t>(touch.entries) * kEntryBytes;
  attr.nlink += static_cast<std::uint32_t>(touch.subdirectories);
  attr.change += touch.changes;
  attr.mtime = attr.ctime = {.seconds = time.seconds(), .nanoseconds = time.nanoseconds()};
  Use(node);
}

// The oldest of them first, whatever the hash says of their names.
void NameCache::AskWhichAreSole(v1::Request& request) {
  const v1::Rename& rename = request.rename();
  const bool could_be_delegated = request.has_rename() ? rename.parent() == rename.new_parent() &&
                                                             (rename.flags() & ~kKnownFlags) == 0
                                                       : !request.unlink().directory();
  if (!could_be_delegated) return;
  const std::uint64_t parent = DirectoryOf(request);
  MutexLock lock(mutex_);
  Node* const directory = Find(parent);
  if (directory == nullptr || FlagsOf(*directory) != 0) return;
  if (!directory->delegation.MayAsk()) return;
  AddSiblings(parent, *directory, request);
  directory->delegation.NoteAsked(request.siblings_size() > 0);
}

void NameCache::AddSiblings(std::uint64_t parent, Node& directory, v1::Request& request) {
  const int most = directory.delegation.MostToAskAbout();
  std::vector<std::uint64_t> found;
  int looked_at = 0;
  for (const auto& [name, inode] : directory.names) {
    if (++looked_at > kLookedAtForOne * most) break;
    const Node* const child = inode == 0 ? nullptr : Find(inode);
    if (child != nullptr && child->attr && S_ISREG(child->attr->mode) && child->attr->nlink == 1 &&
        child->attr->directory == parent &&
        Delegations::MayAskAbout(directory.delegation, child->sole)) {
      found.push_back(inode);
    }
  }
  const auto end = found.begin() + std::min<std::ptrdiff_t>(most, std::ssize(found));
  std::partial_sort(found.begin(), end, found.end());
  for (auto inode = found.begin(); inode != end; ++inode) {
    Delegations::NoteAskedAbout(directory.delegation, Find(*inode)->sole);
    request.add_siblings(*inode);
  }
}

// (What has happened here since it was asked, the attributes say.)
void NameCache::TakeSole(const v1::Request& request, const v1::Reply& reply) {
  if (reply.error() != 0) {  // it was not told
    for (const std::uint64_t inode : request.siblings()) {
      if (Node* const child = Find(inode)) child->sole.NoteNotTold();
    }
    return;
  }
  const std::uint64_t parent = DirectoryOf(request);
  Node* const directory = reply.sole().empty() ? nullptr : Find(parent);
  if (directory == nullptr) return;
  for (const std::uint64_t inode : reply.sole()) {
    Node* const child = Find(inode);
    if (child == nullptr || !child->attr || child->attr->directory != parent) continue;
    Delegations::NoteSole(directory->delegation, child->sole);
  }
}

void NameCache::LearnAttr(const Attributes& attr) {
  if (attr.mode != 0) {
    if (delegations_.HasUnanswered(attr.inode)) return;
    const Node* const node = Find(attr.inode);
    if (node != nullptr && node->sole.removed() && attr.nlink > 0) return;
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
  const std::uint64_t parent = DirectoryOf(request);
  ++space_changes_;
  delegations_.NoteAnswered(parent);
  const std::uint64_t moved = request.delegated().moves();
  if (moved != 0) delegations_.NoteAnswered(moved);
  const std::uint64_t made = request.has_create() ? request.delegated().inode() : 0;
  const auto& held = reply.cacheable();
  if (made != 0 && std::find(held.begin(), held.end(), made) == held.end()) Drop(made);
  if (reply.error() != 0) {  // what is known of the directory is not so
    GiveBack(parent);
    if (moved != 0) GiveBack(moved);
    return;
  }
  for (const std::uint64_t inode : reply.cacheable()) Hold(inode);
  for (const v1::Attr& attr : reply.changed()) LearnAttr(attr);
  TakeDelegations(reply);
  if (request.has_create()) TakeReservedInodes(request, reply);
  Shrink();
}

}  // namespace reel::client
