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

QuotaAmount AmountOf(const ReservedInode& reserved) {
  QuotaAmount amount{.blocks = 0, .files = 1};
  for (const Run& run : reserved.runs) {
    amount.blocks += static_cast<std::int64_t>(run.length_blocks);
  }
  return amount;
}

}  // namespace

void ReservedInodeTable::Charge(const ReservedInode& reserved) {
  if (!reserved.owner) return;
  for (const QuotaId& id : reserved.owner->ids()) charged_[id].Add(AmountOf(reserved));
}

void ReservedInodeTable::Uncharge(const ReservedInode& reserved) {
  if (!reserved.owner) return;
  for (const QuotaId& id : reserved.owner->ids()) {
    const auto charged = charged_.find(id);
    charged->second.Subtract(AmountOf(reserved));
    if (charged->second == QuotaAmount()) charged_.erase(charged);
  }
}

void ReservedInodeTable::Uncharge(const DirectoryReserve& reserve) {
  for (const auto& [inode, reserved] : reserve.reserved) Uncharge(reserved);
}

QuotaAmount ReservedInodeTable::ChargedTo(const QuotaId& id) const {
  const auto charged = charged_.find(id);
  return charged == charged_.end() ? QuotaAmount() : charged->second;
}

std::vector<InodeNumber> ReservedInodeTable::Directories() const {
  std::vector<InodeNumber> directories;
  for (const auto& [of, reserve] : reserves_) {
    if (of.second != kNoDirectory) directories.push_back(of.second);
  }
  return directories;
}

void ReservedInodeTable::Add(SessionId session, InodeNumber directory, ReservedInode reserved,
                             std::uint64_t now_ms) {
  DirectoryReserve& reserve = reserves_[{session, directory}];
  reserve.added_ms = now_ms;
  const InodeNumber inode = reserved.inode;
  const auto [added, is_new] = reserve.reserved.emplace(inode, std::move(reserved));
  if (is_new) Charge(added->second);
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
  const auto used = reserve->second.reserved.find(inode);
  if (used == reserve->second.reserved.end()) return;
  Uncharge(used->second);
  reserve->second.reserved.erase(used);
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

std::vector<std::pair<SessionId, InodeNumber>> ReservedInodeTable::In(const Run& area) const {
  const auto lies_there = [&](const Run& run) {
    return run.pool == area.pool && run.start < area.start + area.length_blocks &&
           area.start < run.start + run.length_blocks;
  };
  std::vector<std::pair<SessionId, InodeNumber>> there;
  for (const auto& [of, reserve] : reserves_) {
    if (of.second == kNoDirectory) continue;
    const bool any = std::ranges::any_of(reserve.reserved, [&](const auto& entry) {
      return std::ranges::any_of(entry.second.runs, lies_there);
    });
    if (any) there.push_back(of);
  }
  return there;
}

std::vector<std::pair<SessionId, InodeNumber>> ReservedInodeTable::ChargedTo(
    const std::vector<QuotaId>& ids) const {
  const auto is_charged = [&](const auto& entry) {
    return entry.second.owner &&
           std::ranges::any_of(entry.second.owner->ids(), [&](const QuotaId& id) {
             return std::ranges::find(ids, id) != ids.end();
           });
  };
  std::vector<std::pair<SessionId, InodeNumber>> charged;
  for (const auto& [of, reserve] : reserves_) {
    if (of.second == kNoDirectory) continue;
    if (std::ranges::any_of(reserve.reserved, is_charged)) charged.push_back(of);
  }
  return charged;
}

std::vector<Run> ReservedInodeTable::Drop(SessionId session, InodeNumber directory) {
  std::vector<Run> runs;
  const auto reserve = reserves_.find({session, directory});
  if (reserve == reserves_.end() || directory == kNoDirectory) return runs;
  Uncharge(reserve->second);
  MoveRuns(reserve->second.reserved, runs);
  reserves_.erase(reserve);
  return runs;
}

std::vector<Run> ReservedInodeTable::DropSome(SessionId session, std::size_t most) {
  std::vector<Run> runs;
  const auto first = reserves_.lower_bound({session, InodeNumber(0)});
  auto last = first;
  for (; last != reserves_.end() && last->first.first == session && runs.size() < most; ++last) {
    Uncharge(last->second);
    MoveRuns(last->second.reserved, runs);
  }
  reserves_.erase(first, last);
  return runs;
}

}  // namespace reel::mdc
