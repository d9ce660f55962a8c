// What a process knows of the portals of its iSCSI targets: which of them did not answer lately.
//
// A LUN is opened by its name alone, and a volume of many LUNs many times. Each of these opens
// would wait for a dead portal anew, and say so. So one that has failed is tried after the others
// for a while (PortalShunMs), and said once. It decides about nothing but the order: every portal
// of an address is tried before an open fails. Threads: all methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "volume/base/mutex.h"

namespace reel {

class PortalMemory {
 public:
  static constexpr std::size_t kMaxPortals = 1024;  // beyond these none is remembered

  // True: that is news, since it answered, or was not known, before.
  bool NoteFailed(const std::string& portal, std::uint64_t now_ms);
  // True: that is news, since it had failed before.
  bool NoteAnswered(const std::string& portal);

  // The order in which to try them, as places in `portals`: as they stand; after them those that
  // failed lately, first the one whose failure is longest ago.
  std::vector<std::size_t> Order(const std::vector<std::string>& portals,
                                 std::uint64_t now_ms) const;

 private:
  mutable Mutex mutex_;
  // Since its last word: when it failed last.
  std::map<std::string, std::uint64_t> failed_ms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
