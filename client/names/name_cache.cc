#include "client/names/name_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/folded_name.h"
#include "proto/request_kind.h"

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

// absl's containers look up by its own string_view, which is not std's in Debian's build.
absl::string_view Key(const NameKey& name) {
  return {name.view().data(), name.view().size()};
}

bool IsDots(std::string_view name) {
  return name == "." || name == "..";
}

}  // namespace

// ---- what is known ----------------------------------------------------------------------------

std::optional<NameCache::Found> NameCache::Lookup(std::uint64_t parent, std::string_view name) {
  MutexLock lock(mutex_);
  Node* const directory = Find(parent);
  if (directory == nullptr) return std::nullopt;
  directory->looked_up_in = true;
  if (IsChanging(parent, *directory, name)) return std::nullopt;
  const auto entry = FindName(*directory, name);
  const bool known = entry != directory->names.end();
  if (!known && (!IsComplete(*directory) || IsDots(name))) return std::nullopt;
  Use(*directory);
  if (!known || entry->second == 0) return Found{.absent = true, .attr = {}};
  Node* const child = Find(entry->second);
  if (child == nullptr || !child->attr || pending_changes_.TouchInode(entry->second)) {
    return std::nullopt;
  }
  Use(*child);
  return Found{.absent = false, .attr = *child->attr};
}

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

bool NameCache::Holds(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  return nodes_.contains(inode);
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

std::optional<Attributes> NameCache::GetAttr(std::uint64_t inode) {
  MutexLock lock(mutex_);
  Node* const node = Find(inode);
  if (node == nullptr || pending_changes_.TouchInode(inode)) return std::nullopt;
  Use(*node);
  return node->attr;
}

std::uint64_t NameCache::space_changes() const {
  MutexLock lock(mutex_);
  return space_changes_;
}

std::optional<std::string> NameCache::ReadLink(std::uint64_t inode) {
  MutexLock lock(mutex_);
  Node* const node = Find(inode);
  if (node == nullptr) return std::nullopt;
  Use(*node);
  return node->link;
}

// ---- what this client changes itself ----------------------------------------------------------

// A name that goes takes a link from its inode, where that is known.
PendingChanges::Change NameCache::BeginChange(const v1::Request& request,
                                              KernelForgets& to_forget) {
  PendingChanges::Change change = PendingChanges::Of(request);
  MutexLock lock(mutex_);
  if (request.has_unlink() || request.has_rename()) {
    for (const auto& [parent, name] : change.names) {
      Node* const directory = Find(parent);
      const auto entry =
          directory == nullptr ? decltype(directory->names.end())() : FindName(*directory, name);
      const bool known = directory != nullptr && entry != directory->names.end();
      const bool absent =
          known ? entry->second == 0 : directory != nullptr && IsComplete(*directory);
      if (!absent) change.inodes.push_back(known ? entry->second : 0);
    }
  }
  pending_changes_.Begin(change);
  for (const std::uint64_t inode : change.inodes) {
    Node* const node = Find(inode);
    if (node != nullptr && node->view.TakeAttributes()) to_forget.attributes.push_back(inode);
  }
  for (const auto& [parent, name] : change.names) {
    Node* const directory = Find(parent);
    if (returning_.contains(parent)) {  // the kernel may not have been told yet
      to_forget.names = true;
      to_forget.attributes.push_back(parent);
    }
    if (directory == nullptr) continue;
    // (Of one that is delegated nobody else sees a change before the recall.)
    to_forget.names |= views_.KeepsNames(directory->view) && !directory->delegation.delegated();
    if (directory->view.attributes() != Shown::kKept) continue;
    directory->view.TakeAttributes();
    to_forget.attributes.push_back(parent);
  }
  return change;
}

void NameCache::EndChange(const PendingChanges::Change& change) {
  MutexLock lock(mutex_);
  pending_changes_.End(change);
}

// ---- what the stream brings -------------------------------------------------------------------

void NameCache::OnReply(const v1::Request& request, const v1::Reply& reply) {
  MutexLock lock(mutex_);
  if (request.has_delegated()) return DelegatedAnswered(request, reply);
  for (const std::uint64_t inode : reply.cacheable()) Hold(inode);
  if (reply.has_attr()) LearnAttr(reply.attr().attr());
  if (reply.has_layout()) LearnAttr(reply.layout().attr());
  if (reply.has_entry()) LearnAttr(reply.entry().attr());
  for (const v1::Attr& attr : reply.changed()) LearnAttr(attr);
  TakeDelegations(reply);
  const bool done = reply.error() == 0;
  if (Is(request, kChangesSpace)) ++space_changes_;
  switch (request.op_case()) {
    case v1::Request::kLookup:
      LookedUp(request.lookup(), reply);
      break;
    case v1::Request::kReadDir:
      if (done) Listed(request.read_dir(), reply.read_dir());
      break;
    case v1::Request::kReadLink:
      if (Node* node = done ? Find(request.read_link().inode()) : nullptr) {
        node->link = reply.data().data();
      }
      break;
    case v1::Request::kCreate:
      if (done) Created(request.create(), reply);
      if (done) TakeReservedInodes(request, reply);
      break;
    case v1::Request::kLink:
      if (done)
        NameChanged(reply, request.link().parent(), request.link().name(), request.link().inode());
      if (Node* node = Find(request.link().inode())) node->sole.NoteOtherName();
      break;
    case v1::Request::kUnlink:
      if (done) NameChanged(reply, request.unlink().parent(), request.unlink().name(), 0);
      TakeSole(request, reply);
      break;
    case v1::Request::kRename:
      if (done) Renamed(request.rename(), reply);
      TakeSole(request, reply);
      break;
    case v1::Request::kSetAttr:  // where the blocks of its files are to lie may have changed
    case v1::Request::kSetXattr:
    case v1::Request::kRemoveXattr:
      for (const std::uint64_t inode : PendingChanges::Of(request).inodes) {
        if (Node* node = Find(inode)) node->delegation.DropReserved();
      }
      break;
    default:
      break;
  }
  Shrink();
}

void NameCache::LookedUp(const v1::Lookup& lookup, const v1::Reply& reply) {
  Node* const directory = Find(lookup.parent());
  if (directory == nullptr || IsDots(lookup.name()) || delegations_.HasUnanswered(lookup.parent()))
    return;
  if (lookup.ahead() && reply.error() == EAGAIN) return;  // which says nothing
  if (reply.error() == 0) {
    SetName(*directory, lookup.name(), reply.entry().attr().inode());
  } else if (reply.error() == ENOENT) {
    SetName(*directory, lookup.name(), 0);
  } else {
    ForgetName(*directory, lookup.name());
  }
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
  if (directory != nullptr) NoteDescribed(*directory, request, listing);
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
  if (directory == nullptr) return;
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

NameCache::RecallStep NameCache::OnRecall(std::uint64_t inode) {
  MutexLock lock(mutex_);
  if (returning_.contains(inode)) return RecallStep::kOnItsWay;
  const Node* const node = Find(inode);
  const bool kept = node != nullptr && views_.Keeps(node->view);
  const bool shown = kept || (node != nullptr && node->view.attributes() != Shown::kNo);
  Drop(inode);
  if (!shown) return RecallStep::kReturn;
  returning_.insert(inode);
  return kept ? RecallStep::kForgetNamesFirst : RecallStep::kForgetAttributesFirst;
}

NameCache::RecallStep NameCache::OnShare(std::uint64_t directory) {
  MutexLock lock(mutex_);
  if (returning_.contains(directory)) return RecallStep::kOnItsWay;
  Node* const node = Find(directory);
  if (node == nullptr) return RecallStep::kReturn;
  Delegations::End(node->delegation);
  const bool changes =
      pending_changes_.TouchNamesOf(directory) || delegations_.HasUnanswered(directory);
  return changes && views_.KeepsNames(node->view) ? RecallStep::kForgetNamesFirst
                                                  : RecallStep::kReturn;
}

std::vector<std::uint64_t> NameCache::Clear(std::uint64_t now_ms) {
  MutexLock lock(mutex_);
  std::vector<std::uint64_t> kept;
  for (const auto& [inode, node] : nodes_) {
    if (node->view.KeepsAttributesAt(now_ms)) kept.push_back(inode);
  }
  nodes_.clear();
  uses_.clear();
  names_weight_ = 0;
  dropped_ = {};
  returning_.clear();
  delegations_.ForgetUnanswered();
  return kept;
}

NameCache::Dropped NameCache::TakeDropped() {
  MutexLock lock(mutex_);
  return std::exchange(dropped_, {});
}

void NameCache::Returned(const std::vector<std::uint64_t>& inodes) {
  MutexLock lock(mutex_);
  for (const std::uint64_t inode : inodes) returning_.erase(inode);
}

std::size_t NameCache::weight() const {
  MutexLock lock(mutex_);
  return WeightLocked();
}

// ---- names of a directory -----------------------------------------------------------------------

NameCache::Names::iterator NameCache::FindName(Node& directory, std::string_view name) {
  const NameKey key(FlagsOf(directory), name);
  return directory.names.find(Key(key));
}

bool NameCache::IsComplete(const Node& directory) {
  return directory.complete && directory.attr;
}

bool NameCache::IsChanging(std::uint64_t parent, const Node& directory,
                           std::string_view name) const {
  // (In whatever spelling.)
  return FoldsNames(FlagsOf(directory)) ? pending_changes_.TouchNamesOf(parent)
                                        : pending_changes_.TouchName(parent, name);
}

// ---- nodes ------------------------------------------------------------------------------------

NameCache::Node* NameCache::Find(std::uint64_t inode) {
  const auto found = nodes_.find(inode);
  return found == nodes_.end() ? nullptr : found->second.get();
}

void NameCache::Use(Node& node) {
  uses_.splice(uses_.begin(), uses_, node.use);
}

void NameCache::Hold(std::uint64_t inode) {
  if (returning_.contains(inode)) return;
  std::unique_ptr<Node>& node = nodes_[inode];
  if (node != nullptr) return;
  node = std::make_unique<Node>();
  uses_.push_front(inode);
  node->use = uses_.begin();
}

void NameCache::Drop(std::uint64_t inode) {
  const auto found = nodes_.find(inode);
  if (found == nodes_.end()) return;
  names_weight_ -= found->second->names_weight + found->second->pages_weight;
  uses_.erase(found->second->use);
  nodes_.erase(found);
}

std::size_t NameCache::WeightLocked() const {
  return nodes_.size() * kNodeWeight + names_weight_;
}

// Makes room for a while: a client that works through many inodes would else send a message with
// each.
void NameCache::Shrink() {
  if (WeightLocked() <= max_weight_) return;
  while (WeightLocked() > max_weight_ - max_weight_ / 64 && !uses_.empty()) {
    GiveBack(uses_.back());
  }
}

// Its token is to be given back.
void NameCache::GiveBack(std::uint64_t inode) {
  const Node* const node = Find(inode);
  if (node == nullptr) return;
  if (views_.Keeps(node->view) || node->view.attributes() == Shown::kKept) {
    dropped_.kept.push_back(inode);
  }
  Drop(inode);
  returning_.insert(inode);
  dropped_.inodes.push_back(inode);
}

void NameCache::SetAttr(const Attributes& attr) {
  if (attr.mode == 0) {
    Drop(attr.inode);  // the inode is gone
  } else if (Node* node = Find(attr.inode)) {
    if (!node->attr || node->attr->change != attr.change) DropPages(*node);
    const bool folded = FoldsNames(FlagsOf(*node));
    node->attr = attr;
    if (folded != FoldsNames(FlagsOf(*node))) DropNames(*node);
  }
}

void NameCache::SetName(Node& directory, std::string_view name, std::uint64_t inode) {
  if (inode == 0 && directory.complete) {  // what is not there is absent
    EraseName(directory, name);
    return;
  }
  // (It weighs what is kept of it: another spelling may be longer.)
  const NameKey key(FlagsOf(directory), name);
  if (!directory.names.insert_or_assign(Key(key), inode).second) return;
  directory.names_weight += WeightOf(key.view());
  names_weight_ += WeightOf(key.view());
}

void NameCache::EraseName(Node& directory, std::string_view name) {
  const auto entry = FindName(directory, name);
  if (entry == directory.names.end()) return;
  directory.names_weight -= WeightOf(entry->first);
  names_weight_ -= WeightOf(entry->first);
  directory.names.erase(entry);
}

void NameCache::DropNames(Node& directory) {
  names_weight_ -= std::exchange(directory.names_weight, 0);
  directory.names.clear();
  directory.complete = false;
  directory.listed_to = 0;
}

void NameCache::ForgetName(Node& directory, std::string_view name) {
  directory.complete = false;
  directory.listed_to = 0;
  EraseName(directory, name);
}

}  // namespace reel::client
