#include "volume/iscsi/iscsi_portals.h"

#include <algorithm>
#include <utility>

#include "volume/scsi/lun_times.h"

namespace reel {

bool PortalMemory::NoteFailed(const std::string& portal, std::uint64_t now_ms) {
  MutexLock lock(mutex_);
  const auto known = failed_ms_.find(portal);
  if (known != failed_ms_.end()) {
    known->second = now_ms;
    return false;
  }
  if (failed_ms_.size() < kMaxPortals) failed_ms_.emplace(portal, now_ms);
  return true;
}

bool PortalMemory::NoteAnswered(const std::string& portal) {
  MutexLock lock(mutex_);
  return failed_ms_.erase(portal) != 0;
}

std::vector<std::size_t> PortalMemory::Order(const std::vector<std::string>& portals,
                                             std::uint64_t now_ms) const {
  std::vector<std::size_t> order;
  std::vector<std::pair<std::uint64_t, std::size_t>> shunned;  // since, place
  MutexLock lock(mutex_);
  for (std::size_t place = 0; place < portals.size(); ++place) {
    const auto failed = failed_ms_.find(portals[place]);
    if (failed == failed_ms_.end() || now_ms - failed->second >= PortalShunMs()) {
      order.push_back(place);
    } else {
      shunned.emplace_back(failed->second, place);
    }
  }
  std::sort(shunned.begin(), shunned.end());
  for (const auto& [since_ms, place] : shunned) order.push_back(place);
  return order;
}

}  // namespace reel
