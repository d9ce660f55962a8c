// Whether something is mounted upon one of our directories, asked often: the tables of all mount
// namespaces are read again only where one of them may have changed.
//
// That is told by the kernel's events for this process's own table, and of the others by how many
// mounts each has (NS_MNT_GET_NEXT and _PREV, Linux 6.12; before, they are read each time). A mount
// may take another's place there: so what was read counts for a fifth of a second at most. No other
// namespace is kept alive for it, as one with an open table would be, with all that is mounted in
// it. Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class MountWatch {
 public:
  static constexpr std::uint64_t kCountsMs = 200;

  // Upon the file system with that device ("0:42"). `clock` outlives this object.
  MountWatch(std::string device, const Clock& clock);

  // As IsMountedUpon (client/mount/tables/mount_table.h).
  bool AnyUpon();
  // How often the tables were read so far.
  std::uint64_t readings() const;

 private:
  // The number of each namespace but ours, and how many mounts it has, in the kernel's order.
  using Namespaces = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  // Nullopt: the kernel does not tell.
  std::optional<Namespaces> Look() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that `step` leads to from ours, one after the other.
  bool Follow(unsigned long step, Namespaces& found) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OwnHasChanged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string device_;
  const Clock& clock_;
  mutable Mutex mutex_;
  const UniqueFd own_table_, own_namespace_;
  std::optional<Namespaces> seen_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t read_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t readings_ ABSL_GUARDED_BY(mutex_) = 0;
  bool upon_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace reel::client
