#include "mdc/sessions/parked_operations.h"

#include <algorithm>

namespace reel::mdc {

void ParkedOperations::Add(InodeNumber inode, const PendingRef& op, Place place) {
  op->queued_on = inode;
  std::deque<PendingRef>& line = lines_[inode];
  place == Place::kFirst ? line.push_front(op) : line.push_back(op);
}

void ParkedOperations::Remove(InodeNumber inode, const PendingRef& op) {
  op->queued_on = InodeNumber(0);
  const auto found = lines_.find(inode);
  std::deque<PendingRef>& line = found->second;
  line.erase(std::ranges::find(line, op));
  if (line.empty()) lines_.erase(found);
}

PendingRef ParkedOperations::First(InodeNumber inode) const {
  const auto found = lines_.find(inode);
  return found == lines_.end() ? nullptr : found->second.front();
}

bool ParkedOperations::AnyBut(InodeNumber inode, const Pending& op) const {
  const auto found = lines_.find(inode);
  return found != lines_.end() && found->second.size() > (op.queued_on == inode ? 1 : 0);
}

bool ParkedOperations::AnyOf(SessionId session) const {
  return std::ranges::any_of(lines_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second, [&](const PendingRef& op) {
      return op->session == session && !op->cancelled && op->reap == InodeNumber(0);
    });
  });
}

void ParkedOperations::CancelOf(SessionId session) {
  for (auto& [inode, line] : lines_) {
    for (const PendingRef& op : line) {
      if (op->session != session) continue;
      op->cancelled = true;
      Wake(inode);
    }
  }
}

std::optional<InodeNumber> ParkedOperations::TakeWoken() {
  if (woken_.empty()) return std::nullopt;
  const InodeNumber inode = *woken_.begin();
  woken_.erase(woken_.begin());
  return inode;
}

}  // namespace reel::mdc
