// Changes of this client's own that are on their way: sent, or about to be, and not yet answered.
//
// The controller may have made such a change, and shown it to others, before its reply is here; so
// what it may touch is not answered from the cache meanwhile. A directory's own times, size and
// links are passed over: whoever makes many names in it would else ask for it with each.
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/mdc.pb.h"

namespace reel::client {

class PendingChanges {
 public:
  // What one request may change.
  struct Change {
    std::vector<std::pair<std::uint64_t, std::string>> names;  // with their directories
    std::vector<std::uint64_t> inodes;                         // 0: one that is not known
    bool empty() const { return names.empty() && inodes.empty(); }
  };
  // Without the inodes that its names lead to.
  static Change Of(const v1::Request& request);

  void Begin(const Change& change);
  void End(const Change& change);

  bool TouchName(std::uint64_t directory, std::string_view name) const;
  bool TouchNamesOf(std::uint64_t directory) const;
  bool TouchInode(std::uint64_t inode) const;

 private:
  // How many changes concern it.
  std::map<std::pair<std::uint64_t, std::string>, std::uint32_t> names_;
  std::map<std::uint64_t, std::uint32_t> inodes_;
};

}  // namespace reel::client
