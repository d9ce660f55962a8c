// What this controller sees of the volume's LUNs, which says whether a host is to blame that does
// not reach one.
//
// Invariant: a LUN counts as reached only by a look that is recent. Threads: the core thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "mdc/base/fence_times.h"
#include "volume/base/uuid.h"

namespace reel::mdc {

class LunSights {
 public:
  // A look at all LUNs is done: the data LUNs that it did not reach.
  void Seen(const std::vector<Uuid>& lost, std::uint64_t now_ms) {
    lost_.clear();
    for (const Uuid& lun : lost) lost_.insert(lun.ToBytes());
    seen_ms_ = now_ms;
  }
  // The last look did not reach all.
  bool AnyLost() const { return !lost_.empty(); }
  // It was a moment ago, and has reached that one.
  bool Reaches(const std::string& lun, std::uint64_t now_ms) const {
    return seen_ms_ != 0 && now_ms - seen_ms_ <= 3 * ReservationWatchMs() && !lost_.contains(lun);
  }

 private:
  absl::flat_hash_set<std::string> lost_;
  std::uint64_t seen_ms_ = 0;  // 0: never
};

}  // namespace reel::mdc
