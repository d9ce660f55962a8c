// Listings: what they bring, the parts of them that are kept, and what whoever goes through one is
// likely to want next.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/names/name_cache.h"

namespace reel::client {
namespace {

// What the controller counts as the first entry behind "." and "..".
constexpr std::uint64_t kFirstCookie = 3;
// A directory with more names than that part of the cache gets no more from listings.
constexpr std::size_t kListedShare = 8;
// As many subdirectories are looked at for where a walk has come to.
constexpr std::ptrdiff_t kWalkLook = 1024;
// After so many names that had to be asked for, one by one, more of the directory is described.
constexpr std::uint32_t kMissesOfWalk = 8;

}  // namespace

bool NameCache::TakeLookedUp(std::uint64_t directory) {
  MutexLock lock(mutex_);
  Node* const node = Find(directory);
  return node != nullptr && std::exchange(node->looked_up_in, false);
}

std::optional<std::uint64_t> NameCache::NoteMissed(std::uint64_t directory, std::string_view name) {
  MutexLock lock(mutex_);
  Node* const node = Find(directory);
  if (node == nullptr || node->described_to == 0) return std::nullopt;
  const auto entry = FindName(*node, name);
  if (entry == node->names.end() || entry->second == 0) return std::nullopt;
  if (++node->missed < kMissesOfWalk) return std::nullopt;
  node->missed = 0;
  return node->described_to;
}

std::shared_ptr<const v1::ReadDirReply> NameCache::Page(std::uint64_t directory,
                                                        std::uint64_t cookie) {
  MutexLock lock(mutex_);
  Node* const node = Find(directory);
  if (node == nullptr || pending_changes_.TouchNamesOf(directory)) return nullptr;
  Use(*node);
  const auto page = node->pages.find(cookie);
  return page == node->pages.end() ? nullptr : page->second;
}

// Looks for the place near where the walk was, or near the start, so that no directory is too large
// for it.
std::vector<std::uint64_t> NameCache::NextOfWalk(std::uint64_t parent, std::uint64_t directory,
                                                 std::size_t siblings) {
  MutexLock lock(mutex_);
  std::vector<std::uint64_t> next;
  Node* const node = parent == directory ? nullptr : Find(parent);
  if (node == nullptr) return next;
  const std::vector<std::uint64_t>& all = node->subdirectories;
  const auto find = [&](std::size_t from) -> std::optional<std::size_t> {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::min(from, all.size()));
    const auto end = begin + std::min<std::ptrdiff_t>(kWalkLook, all.end() - begin);
    const auto at = std::find(begin, end, directory);
    if (at == end) return std::nullopt;
    return at - all.begin();
  };
  std::optional<std::size_t> at = find(node->walked_to);
  if (!at) at = find(0);
  if (!at) return next;
  const bool walks = *at == 0 || *at == node->walked_to;
  node->walked_to = *at + 1;
  if (!walks) return next;
  Node* const within = Find(directory);
  if (within != nullptr && !within->subdirectories.empty() &&
      !IsPageKnown(within->subdirectories.front())) {
    next.push_back(within->subdirectories.front());
  }
  for (std::size_t i = *at + 1; i < all.size() && i <= *at + siblings; ++i) {
    if (!IsPageKnown(all[i])) next.push_back(all[i]);
  }
  return next;
}

bool NameCache::IsPageKnown(std::uint64_t directory) {
  const Node* const node = Find(directory);
  return node != nullptr && node->pages.contains(0);
}

// (Whatever has changed here since: what is skipped so is only not known.)
void NameCache::NoteDescribed(Node& directory, const v1::ReadDir& request,
                              const v1::ReadDirReply& listing) {
  if (!request.attributes() || request.cookie() != directory.described_to) return;
  const int count = listing.entries_size();
  directory.described_to = listing.end() || count == 0 ? 0 : listing.entries(count - 1).cookie();
}

void NameCache::Listed(const v1::ReadDir& request, const v1::ReadDirReply& listing) {
  Node* directory = Find(request.inode());
  // (Behind a name: no more than what its entries say.)
  const bool by_cookie = request.behind().empty();
  if (directory != nullptr && by_cookie) NoteDescribed(*directory, request, listing);
  // Names may have been made and removed here since it was read.
  if (delegations_.HasUnanswered(request.inode())) directory = nullptr;
  // Whoever lists a very large directory has seldom use for all of it.
  if (directory != nullptr && directory->names_weight > max_weight_ / kListedShare) {
    directory->listed_to = 0;
    directory = nullptr;
  }
  for (const v1::ReadDirReply::Entry& entry : listing.entries()) {
    if (entry.cookie() < kFirstCookie) continue;
    if (entry.has_attr()) LearnAttr(entry.attr());
    if (directory != nullptr) SetName(*directory, entry.name(), entry.inode());
  }
  if (directory == nullptr || !by_cookie) return;
  KeepPage(*directory, request.cookie(), listing);
  const bool continues = request.cookie() == 0 || request.cookie() == directory->listed_to;
  if (!continues) return;
  NoteSubdirectories(*directory, request.cookie() == 0, listing);
  directory->listed_to =
      listing.entries_size() > 0 ? listing.entries(listing.entries_size() - 1).cookie() : 0;
  if (listing.end()) directory->complete = true;
}

void NameCache::KeepPage(Node& directory, std::uint64_t cookie, const v1::ReadDirReply& listing) {
  if (!directory.attr) return;  // no change of it would be noticed
  auto page = std::make_shared<v1::ReadDirReply>();
  page->set_end(listing.end());
  page->set_atime_due(listing.atime_due());
  page->set_next_cookie(listing.next_cookie());
  page->mutable_entries()->Reserve(listing.entries_size());
  for (const v1::ReadDirReply::Entry& entry : listing.entries()) {  // attributes are kept elsewhere
    v1::ReadDirReply::Entry& kept = *page->add_entries();
    kept.set_name(entry.name());
    kept.set_inode(entry.inode());
    kept.set_type(entry.type());
    kept.set_cookie(entry.cookie());
  }
  const std::size_t weight = 1 + page->entries_size();
  if (!directory.pages.emplace(cookie, std::move(page)).second) return;
  directory.pages_weight += weight;
  names_weight_ += weight;
}

void NameCache::NoteSubdirectories(Node& directory, bool from_start,
                                   const v1::ReadDirReply& listing) {
  if (directory.pages.empty()) return;
  if (from_start) {
    directory.subdirectories.clear();
    directory.walked_to = 0;
  }
  for (const v1::ReadDirReply::Entry& entry : listing.entries()) {
    if (entry.cookie() < kFirstCookie || !S_ISDIR(entry.type())) continue;
    directory.subdirectories.push_back(entry.inode());
  }
}

void NameCache::DropPages(Node& directory) {
  names_weight_ -= std::exchange(directory.pages_weight, 0);
  directory.pages.clear();
  directory.subdirectories.clear();
  directory.walked_to = 0;
  directory.view.DropListing();
}

}  // namespace reel::client
