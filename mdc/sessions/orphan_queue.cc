#include "mdc/sessions/orphan_queue.h"

#include <algorithm>

namespace reel::mdc {

void OrphanQueue::Count(const Held& held, bool more) {
  if (held.use == Use::kNone) return;
  Space& space = held.use == Use::kOpen ? open_ : removing_;
  space.files += more ? 1 : -1;
  space.blocks += more ? held.blocks : -held.blocks;
}

void OrphanQueue::SetSpace(InodeNumber inode, std::uint64_t blocks, Use use) {
  const auto found = held_.find(inode);
  if (found != held_.end()) {
    Count(found->second, false);
    held_.erase(found);
  }
  if (use == Use::kNone) return;
  Count(held_[inode] = {blocks, use}, true);
}

void OrphanQueue::SetOpen(InodeNumber inode) {
  const auto held = held_.find(inode);
  if (held != held_.end()) SetSpace(inode, held->second.blocks, Use::kOpen);
}

void OrphanQueue::Queue(InodeNumber inode, Place place) {
  if (!Contains(inode)) return;
  // Whoever had it open has closed it, or its next step says that it is open still.
  const auto held = held_.find(inode);
  if (held != held_.end() && held->second.use == Use::kOpen) {
    SetSpace(inode, held->second.blocks, Use::kRemoving);
  }
  if (!is_due_.insert(inode).second) return;
  if (place == Place::kFirst) {
    due_.push_front(inode);
  } else {
    due_.push_back(inode);
  }
}

void OrphanQueue::QueueAll() {
  std::vector<InodeNumber> orphans(orphans_.begin(), orphans_.end());
  std::sort(orphans.begin(), orphans.end());
  for (const InodeNumber inode : orphans) Queue(inode);
}

std::optional<InodeNumber> OrphanQueue::next() const {
  if (due_.empty()) return std::nullopt;
  return due_.front();
}

void OrphanQueue::BeginTurn() {
  begun_ = 0;
  changed_ = 0;
}

std::optional<InodeNumber> OrphanQueue::BeginStep() {
  if (begun_ >= kTurnSteps || changed_ >= most_changed_ || due_.empty()) return std::nullopt;
  const InodeNumber inode = due_.front();
  due_.pop_front();
  is_due_.erase(inode);
  ++begun_;
  ++under_way_;
  return inode;
}

void OrphanQueue::Committed(std::size_t records, Sequence sequence) {
  changed_ += records;
  last_commit_ = std::max(last_commit_, sequence);
}

bool OrphanQueue::FreesSpace(Sequence durable) const {
  return !due_.empty() || under_way_ > 0 || last_commit_ > durable;
}

void OrphanQueue::BeginLateOpen(InodeNumber inode, std::uint64_t now_ms, bool promised) {
  late_opens_.push_back({now_ms + kLateOpenMs, inode, promised});
}

std::vector<InodeNumber> OrphanQueue::EndLateOpens(std::uint64_t now_ms) {
  std::vector<InodeNumber> ended;
  for (; !late_opens_.empty() && late_opens_.front().until_ms <= now_ms; late_opens_.pop_front()) {
    ended.push_back(late_opens_.front().inode);
  }
  return ended;
}

std::vector<InodeNumber> OrphanQueue::EndLateOpensForSpace() {
  std::vector<InodeNumber> ended;
  std::erase_if(late_opens_, [&](const LateOpen& open) {
    if (!open.promised) ended.push_back(open.inode);
    return !open.promised;
  });
  return ended;
}

}  // namespace reel::mdc
