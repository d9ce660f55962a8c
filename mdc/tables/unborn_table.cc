#include "mdc/tables/unborn_table.h"

#include <iterator>

namespace reel::mdc {
namespace {

void MoveRuns(std::map<InodeNumber, Unborn>& from, std::vector<Run>& to) {
  for (auto& [inode, unborn] : from) {
    to.insert(to.end(), std::make_move_iterator(unborn.runs.begin()),
              std::make_move_iterator(unborn.runs.end()));
  }
}

}  // namespace

void UnbornTable::Add(SessionId session, InodeNumber directory, Unborn unborn,
                      std::uint64_t now_ms) {
  Stock& stock = stocks_[{session, directory}];
  stock.added_ms = now_ms;
  const InodeNumber inode = unborn.inode;
  stock.unborn.emplace(inode, std::move(unborn));
}

const Unborn* UnbornTable::Find(SessionId session, InodeNumber directory, InodeNumber inode) const {
  const auto stock = stocks_.find({session, directory});
  if (stock == stocks_.end()) return nullptr;
  const auto found = stock->second.unborn.find(inode);
  return found == stock->second.unborn.end() ? nullptr : &found->second;
}

void UnbornTable::Born(SessionId session, InodeNumber directory, InodeNumber inode) {
  const auto stock = stocks_.find({session, directory});
  if (stock == stocks_.end()) return;
  stock->second.unborn.erase(inode);
  if (stock->second.unborn.empty()) stocks_.erase(stock);
}

void UnbornTable::Spoil(SessionId session, InodeNumber directory, InodeNumber inode) {
  const Unborn* const found = Find(session, directory, inode);
  if (found == nullptr || directory == kNoDirectory) return;
  Unborn spoilt = *found;
  Born(session, directory, inode);
  Add(session, kNoDirectory, std::move(spoilt), 0);
}

std::size_t UnbornTable::CountOf(SessionId session, InodeNumber directory) const {
  const auto stock = stocks_.find({session, directory});
  return stock == stocks_.end() ? 0 : stock->second.unborn.size();
}

std::vector<std::pair<SessionId, InodeNumber>> UnbornTable::Idle(std::uint64_t since_ms) const {
  std::vector<std::pair<SessionId, InodeNumber>> idle;
  for (const auto& [of, stock] : stocks_) {
    if (of.second != kNoDirectory && stock.added_ms < since_ms) idle.push_back(of);
  }
  return idle;
}

std::vector<Run> UnbornTable::Drop(SessionId session, InodeNumber directory) {
  std::vector<Run> runs;
  const auto stock = stocks_.find({session, directory});
  if (stock == stocks_.end() || directory == kNoDirectory) return runs;
  MoveRuns(stock->second.unborn, runs);
  stocks_.erase(stock);
  return runs;
}

std::vector<Run> UnbornTable::DropSome(SessionId session, std::size_t most) {
  std::vector<Run> runs;
  const auto first = stocks_.lower_bound({session, InodeNumber(0)});
  auto last = first;
  for (; last != stocks_.end() && last->first.first == session && runs.size() < most; ++last) {
    MoveRuns(last->second.unborn, runs);
  }
  stocks_.erase(first, last);
  return runs;
}

}  // namespace reel::mdc
