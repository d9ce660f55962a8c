#include "client/names/name_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/folded_name.h"
#include "proto/request_kind.h"

namespace reel::client {
namespace {

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

bool NameCache::Holds(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  return nodes_.contains(inode);
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

NameCache::Recall NameCache::OnRecall(std::uint64_t inode, bool delayed) {
  MutexLock lock(mutex_);
  if (returning_.contains(inode)) return {.step = RecallStep::kOnItsWay};
  const Node* const node = Find(inode);
  const bool kept = node != nullptr && views_.Keeps(node->view);
  const bool shown = kept || (node != nullptr && node->view.attributes() != Shown::kNo);
  const std::uint64_t until_ms = shown ? node->view.shown_until_ms() : 0;
  Drop(inode);
  if (shown || delayed) returning_.emplace(inode, until_ms);
  if (!shown) return {};
  return {.step = kept ? RecallStep::kForgetNamesFirst : RecallStep::kForgetAttributesFirst,
          .until_ms = until_ms};
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

NameCache::KeptAttributes NameCache::Clear(std::uint64_t now_ms) {
  MutexLock lock(mutex_);
  KeptAttributes kept;
  for (const auto& [inode, node] : nodes_) {
    const KernelViews::View& view = node->view;
    if (view.KeepsAttributesAt(now_ms) && node->attr && S_ISDIR(node->attr->mode)) {
      kept.directories.push_back(inode);
    } else if (view.attributes() != Shown::kNo && view.shown_until_ms() > now_ms) {
      kept.others.push_back({.inode = inode, .until_ms = view.shown_until_ms()});
    }
  }
  for (const auto& [inode, until_ms] : returning_) {
    if (until_ms > now_ms) kept.others.push_back({.inode = inode, .until_ms = until_ms});
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
  const bool names = views_.Keeps(node->view);
  const std::uint64_t until_ms = node->view.shown_until_ms();
  if (names || until_ms > 0) dropped_.kept.push_back({.inode = inode, .until_ms = until_ms});
  dropped_.names |= names;
  Drop(inode);
  returning_.emplace(inode, until_ms);
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
