// Of which inodes each session holds a token, and which of these are wanted back, so that nobody
// looks at the others for it. Invariants:
//   1. A session that holds nothing has no entry.
//   2. What is wanted back is held.
// Threads: the core's alone.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "volume/base/types.h"

namespace reel::mdc {

class SessionInodes {
 public:
  std::size_t CountOf(SessionId session) const {
    const auto mine = sessions_.find(session);
    return mine == sessions_.end() ? 0 : mine->second.held.size();
  }
  void Hold(SessionId session, InodeNumber inode) { sessions_[session].held.insert(inode); }
  // REQUIRES, of this and Keep: it is held.
  void Want(SessionId session, InodeNumber inode) { sessions_[session].wanted.insert(inode); }
  // It is wanted back no longer.
  void Keep(SessionId session, InodeNumber inode) { sessions_[session].wanted.erase(inode); }
  // It is held no longer, if it was.
  void Drop(SessionId session, InodeNumber inode) {
    const auto mine = sessions_.find(session);
    if (mine == sessions_.end()) return;
    mine->second.wanted.erase(inode);
    mine->second.held.erase(inode);
    if (mine->second.held.empty()) sessions_.erase(mine);
  }

  // The lowest that the session holds, at most so many.
  std::vector<InodeNumber> Lowest(SessionId session, std::size_t most) const {
    const auto mine = sessions_.find(session);
    if (mine == sessions_.end()) return {};
    return First(mine->second.held, InodeNumber(0), most);
  }
  // Those that are wanted back, of `from` and later ones, at most so many.
  std::vector<InodeNumber> Wanted(SessionId session, InodeNumber from, std::size_t most) const {
    const auto mine = sessions_.find(session);
    if (mine == sessions_.end()) return {};
    return First(mine->second.wanted, from, most);
  }

 private:
  using Set = absl::btree_set<InodeNumber>;
  struct Inodes {
    Set held;
    Set wanted;
  };

  static std::vector<InodeNumber> First(const Set& set, InodeNumber from, std::size_t most) {
    std::vector<InodeNumber> first;
    for (auto it = set.lower_bound(from); it != set.end() && first.size() < most; ++it) {
      first.push_back(*it);
    }
    return first;
  }

  absl::flat_hash_map<SessionId, Inodes> sessions_;
};

}  // namespace reel::mdc
