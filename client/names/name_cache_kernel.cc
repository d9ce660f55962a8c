// What the kernel was shown of the cache, and may take for valid.
#include <sys/stat.h>

#include "client/names/name_cache.h"
#include "proto/folded_name.h"

namespace reel::client {

// A change in a directory changes its times: the kernel, which asks in the middle of one, may learn
// of the old ones after it has heard of the change.
NameCache::Shown NameCache::Show(const Attributes& attr, std::uint64_t until_ms, bool keep) {
  MutexLock lock(mutex_);
  Node* const node = Find(attr.inode);
  if (node == nullptr || !node->attr || node->attr->change != attr.change ||
      pending_changes_.TouchInode(attr.inode)) {
    return Shown::kNo;
  }
  const bool directory = S_ISDIR(attr.mode);
  const bool still = directory ? !pending_changes_.TouchNamesOf(attr.inode) : S_ISREG(attr.mode);
  return views_.ShowAttributes(node->view, until_ms, keep && still, directory);
}

bool NameCache::KeepsAttributes(std::uint64_t inode, std::uint64_t now_ms) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(inode);
  return found != nodes_.end() && found->second->view.KeepsAttributesAt(now_ms);
}

bool NameCache::ShowName(std::uint64_t parent, std::string_view name, std::uint64_t inode,
                         bool quiet) {
  MutexLock lock(mutex_);
  Node* const directory = Find(parent);
  if (directory == nullptr || !views_.may_keep() || pending_changes_.TouchName(parent, name))
    return false;
  // The kernel knows each spelling by itself: a removal by one would leave it the others.
  if (FoldsNames(FlagsOf(*directory))) return false;
  if (!quiet && !directory->delegation.delegated()) return false;
  const auto entry = FindName(*directory, name);
  const bool known = entry != directory->names.end();
  if (!known && !IsComplete(*directory)) return false;
  if (inode != (known ? entry->second : 0)) return false;
  // What the kernel knows of the owner of what it comes to by name it does not ask for again.
  Node* const child = inode == 0 ? nullptr : Find(inode);
  if (inode != 0 && (child == nullptr || pending_changes_.TouchInode(inode))) return false;
  views_.ShowName(directory->view, child == nullptr ? nullptr : &child->view);
  return true;
}

NameCache::Listing NameCache::ShowListing(std::uint64_t directory) {
  MutexLock lock(mutex_);
  Node* const node = Find(directory);
  // (Of a change whose caller has given up the kernel learns nothing.)
  if (node == nullptr || pending_changes_.TouchNamesOf(directory)) return {};
  return views_.ShowListing(node->view);
}

void NameCache::NoteListing(std::uint64_t directory, const Listing& listing) {
  if (listing.number == 0 || listing.kept) return;
  MutexLock lock(mutex_);
  Node* const node = Find(directory);
  if (node != nullptr) node->view.NoteListing(listing.number);
}

bool NameCache::BeginForget() {
  MutexLock lock(mutex_);
  return views_.BeginForget();
}

void NameCache::EndForget() {
  MutexLock lock(mutex_);
  views_.EndForget();
}

}  // namespace reel::client
