// What sessions were delegated: the inodes that are reserved for them in directories, and which
// directories are delegated to nobody for a while (docs/internals/directory-delegations.md).
//
// Who has a delegation is an exclusive attribute token (holdings.h). Invariants:
//   1. A directory is idle once nothing was reserved in it for kIdleMs.
//   2. The reserves are looked through every kLookMs at most, not with each tick.
// Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mdc/tables/reserved_inode_table.h"
#include "mdc/tables/shared_directories.h"
#include "volume/base/types.h"

namespace reel::mdc {

class Delegations {
 public:
  // A directory in which nothing was made for so long is not delegated any longer: blocks are
  // reserved for it, and whoever looks there would wait for a host that has died.
  static constexpr std::uint64_t kIdleMs = 5'000;
  static constexpr std::uint64_t kLookMs = kIdleMs / 10;

  explicit Delegations(std::uint64_t shared_ms) : shared_(shared_ms) {}

  ReservedInodeTable& reserved() { return reserved_; }
  // Directories that others wanted to see a moment ago.
  SharedDirectories& shared() { return shared_; }
  const SharedDirectories& shared() const { return shared_; }

  // The sessions and directories whose delegation is to be recalled. Empty, too, where the last
  // look was a moment ago.
  std::vector<std::pair<SessionId, InodeNumber>> LookForIdle(std::uint64_t now_ms) {
    if (now_ms < looked_ms_ + kLookMs) return {};
    looked_ms_ = now_ms;
    return reserved_.Idle(now_ms - std::min(now_ms, kIdleMs));
  }

 private:
  ReservedInodeTable reserved_;
  SharedDirectories shared_;
  std::uint64_t looked_ms_ = 0;  // for idle ones
};

}  // namespace reel::mdc
