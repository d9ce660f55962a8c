#include "mdc/tables/reserved_inode_table.h"

#include <iterator>

namespace reel::mdc {
namespace {

void MoveRuns(std::map<InodeNumber, ReservedInode>& from, std::vector<Run>& to) {
  for (auto& [inode, reserved] : from) {
    to.insert(to.end(), std::make_move_iterator(reserved.runs.begin()),
              std::make_move_iterator(reserved.runs.end()));
  }
}

}  // namespace

void ReservedInodeTable::Add(SessionId session, InodeNumber directory, ReservedInode reserved,
                             std::uint64_t now_ms) {
  DirectoryReserve& reserve = reserves_[{session, directory}];
  reserve.added_ms = now_ms;
  const InodeNumber inode = reserved.inode;
  reserve.reserved.emplace(inode, std::move(reserved));
}

const ReservedInode* ReservedInodeTable::Find(SessionId session, InodeNumber directory,
                                              InodeNumber inode) const {
  const auto reserve = reserves_.find({session, directory});
  if (reserve == reserves_.end()) return nullptr;
  const auto found = reserve->second.reserved.find(inode);
  return found == reserve->second.reserved.end() ? nullptr : &found->second;
}

void ReservedInodeTable::Use(SessionId session, InodeNumber directory, InodeNumber inode) {
  const auto reserve = reserves_.find({session, directory});
  if (reserve == reserves_.end()) return;
  reserve->second.reserved.erase(inode);
  if (reserve->second.reserved.empty()) reserves_.erase(reserve);
}

void ReservedInodeTable::Quarantine(SessionId session, InodeNumber directory, InodeNumber inode) {
  const ReservedInode* const found = Find(session, directory, inode);
  if (found == nullptr || directory == kNoDirectory) return;
  ReservedInode spoilt = *found;
  Use(session, directory, inode);
  Add(session, kNoDirectory, std::move(spoilt), 0);
}

std::size_t ReservedInodeTable::CountOf(SessionId session, InodeNumber directory) const {
  const auto reserve = reserves_.find({session, directory});
  return reserve == reserves_.end() ? 0 : reserve->second.reserved.size();
}

std::vector<std::pair<SessionId, InodeNumber>> ReservedInodeTable::Idle(
    std::uint64_t since_ms) const {
  std::vector<std::pair<SessionId, InodeNumber>> idle;
  for (const auto& [of, reserve] : reserves_) {
    if (of.second != kNoDirectory && reserve.added_ms < since_ms) idle.push_back(of);
  }
  return idle;
}

std::vector<Run> ReservedInodeTable::Drop(SessionId session, InodeNumber directory) {
  std::vector<Run> runs;
  const auto reserve = reserves_.find({session, directory});
  if (reserve == reserves_.end() || directory == kNoDirectory) return runs;
  MoveRuns(reserve->second.reserved, runs);
  reserves_.erase(reserve);
  return runs;
}

std::vector<Run> ReservedInodeTable::DropSome(SessionId session, std::size_t most) {
  std::vector<Run> runs;
  const auto first = reserves_.lower_bound({session, InodeNumber(0)});
  auto last = first;
  for (; last != reserves_.end() && last->first.first == session && runs.size() < most; ++last) {
    MoveRuns(last->second.reserved, runs);
  }
  reserves_.erase(first, last);
  return runs;
}

}  // namespace reel::mdc
