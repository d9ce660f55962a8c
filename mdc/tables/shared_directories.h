// Directories that another session wanted to see a moment ago, and that are delegated to nobody
// meanwhile: hosts that take turns there would else wait for a recall each time.
//
// Invariants:
//   1. A directory is shared for `shared_ms` from the last time that it was noted.
//   2. At most kMost are noted. When there are more, all are forgotten: it costs a recall each.
// Threads: the core thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "volume/base/types.h"

namespace reel::mdc {

class SharedDirectories {
 public:
  static constexpr std::size_t kMost = 4'096;

  explicit SharedDirectories(std::uint64_t shared_ms) : shared_ms_(shared_ms) {}

  void Note(InodeNumber directory, std::uint64_t now_ms) {
    if (until_ms_.size() >= kMost) until_ms_.clear();
    until_ms_[directory] = now_ms + shared_ms_;
  }
  bool IsShared(InodeNumber directory, std::uint64_t now_ms) const {
    const auto found = until_ms_.find(directory);
    return found != until_ms_.end() && found->second > now_ms;
  }

 private:
  const std::uint64_t shared_ms_;
  absl::flat_hash_map<InodeNumber, std::uint64_t> until_ms_;
};

}  // namespace reel::mdc
