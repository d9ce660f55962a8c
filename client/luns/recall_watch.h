// Which recalls this client works on, and when each of them last moved.
//
// A recall moves when bytes of its file reach a LUN, when somebody who used the file leaves it, or
// when the controller has taken a commit. One that stands still while a path to a LUN is lost is
// why this client gives its session up (docs/failover.md); one that moves, however slowly, is let
// be. Threads: all methods may be called concurrently. Lock order: a FileState, then this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"

namespace reel::client {

class RecallWatch {
 public:
  explicit RecallWatch(const Clock& clock) : clock_(clock) {}

  void Begin(std::uint64_t inode) {
    const std::uint64_t now_ms = clock_.NowMs();
    MutexLock lock(mutex_);
    moved_ms_.try_emplace(inode, now_ms);
  }
  // Nothing where there is no recall of the inode.
  void Moved(std::uint64_t inode) {
    const std::uint64_t now_ms = clock_.NowMs();
    MutexLock lock(mutex_);
    const auto recall = moved_ms_.find(inode);
    if (recall != moved_ms_.end()) recall->second = now_ms;
  }
  void End(std::uint64_t inode) {
    MutexLock lock(mutex_);
    moved_ms_.erase(inode);
  }
  bool Has(std::uint64_t inode) const {
    MutexLock lock(mutex_);
    return moved_ms_.contains(inode);
  }
  // For how long the one that has stood still for longest has done so; nullopt: there is none.
  std::optional<std::uint64_t> StalledMs() const {
    const std::uint64_t now_ms = clock_.NowMs();
    MutexLock lock(mutex_);
    std::optional<std::uint64_t> longest;
    for (const auto& [inode, moved_ms] : moved_ms_) {
      longest = std::max(longest.value_or(0), now_ms - std::min(now_ms, moved_ms));
    }
    return longest;
  }

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  // By inode; bounded by the files in use.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> moved_ms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
