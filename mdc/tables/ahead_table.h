// Files that have blocks ahead of what was written, as far as somebody's quota counts them: who is
// refused at a limit has them taken back first.
//
// A hint: an inode may be listed that has none any more. Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mdc/base/ids.h"
#include "mdc/base/quota_id.h"

namespace reel::mdc {

class AheadTable {
 public:
  // Beyond so many, some are forgotten: who lacks what they have is refused.
  static constexpr std::size_t kMaxInodes = 1 << 16;

  // `owner`: whom the blocks are charged to; none: it is not known, as in a new epoch.
  void Note(InodeNumber inode, std::optional<QuotaOwner> owner) {
    if (owners_.size() >= kMaxInodes && !owners_.contains(inode)) owners_.erase(owners_.begin());
    owners_[inode] = owner;
  }
  // All that are charged to one of the ids, or may be, but for one inode; they are listed no more.
  std::vector<InodeNumber> Take(const std::vector<QuotaId>& ids, InodeNumber but) {
    std::vector<InodeNumber> taken;
    for (const auto& [inode, owner] : owners_) {
      if (inode != but && (!owner || AnyOf(*owner, ids))) taken.push_back(inode);
    }
    for (const InodeNumber inode : taken) owners_.erase(inode);
    std::ranges::sort(taken);  // whatever the hash says
    return taken;
  }

 private:
  static bool AnyOf(const QuotaOwner& owner, const std::vector<QuotaId>& ids) {
    return std::ranges::any_of(
        owner.ids(), [&](const QuotaId& id) { return std::ranges::find(ids, id) != ids.end(); });
  }

  absl::flat_hash_map<InodeNumber, std::optional<QuotaOwner>> owners_;
};

}  // namespace reel::mdc
