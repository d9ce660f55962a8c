// Inodes without a name that the kernel still refers to: a working directory that was removed, a
// file that is held by O_PATH. The controller has forgotten them (what is open it keeps); their
// attributes live on here until the kernel forgets them, too.
//
// Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "proto/mdc.pb.h"
#include "volume/mutex.h"
#include "volume/types.h"

namespace reel::client {

class RemovedInodes {
 public:
  // One of its names was removed at `now`: the last one, for what this is asked about later.
  void Add(v1::Attr attr, const v1::Time& now);
  // From the kernel: it knows these no more.
  void Forget(std::uint64_t inode);

  bool Has(std::uint64_t inode) const { return Find(inode).has_value(); }
  std::optional<v1::Attr> Find(std::uint64_t inode) const;
  // nullopt when it is not here, or is to change in what only the controller can do.
  std::optional<v1::Attr> Set(const v1::SetAttr& set, const v1::Time& now);

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<std::uint64_t, v1::Attr> attrs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
