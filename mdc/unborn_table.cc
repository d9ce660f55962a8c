#include "mdc/unborn_table.h"

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

void UnbornTable::Add(SessionId session, InodeNumber directory, Unborn unborn) {
  const InodeNumber inode = unborn.inode;
  unborn_[{session, directory}].emplace(inode, std::move(unborn));
}

const Unborn* UnbornTable::Find(SessionId session, InodeNumber directory,
                                InodeNumber inode) const {
  const auto known = unborn_.find({session, directory});
  if (known == unborn_.end()) return nullptr;
  const auto found = known->second.find(inode);
  return found == known->second.end() ? nullptr : &found->second;
}

void UnbornTable::Born(SessionId session, InodeNumber directory, InodeNumber inode) {
  const auto known = unborn_.find({session, directory});
  if (known == unborn_.end()) return;
  known->second.erase(inode);
  if (known->second.empty()) unborn_.erase(known);
}

std::size_t UnbornTable::CountOf(SessionId session, InodeNumber directory) const {
  const auto known = unborn_.find({session, directory});
  return known == unborn_.end() ? 0 : known->second.size();
}

std::vector<Run> UnbornTable::Drop(SessionId session, InodeNumber directory) {
  std::vector<Run> runs;
  const auto known = unborn_.find({session, directory});
  if (known == unborn_.end()) return runs;
  MoveRuns(known->second, runs);
  unborn_.erase(known);
  return runs;
}

std::vector<Run> UnbornTable::Drop(SessionId session) {
  std::vector<Run> runs;
  const auto first = unborn_.lower_bound({session, InodeNumber(0)});
  auto last = first;
  for (; last != unborn_.end() && last->first.first == session; ++last) MoveRuns(last->second, runs);
  unborn_.erase(first, last);
  return runs;
}

}  // namespace reel::mdc
