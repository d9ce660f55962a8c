// Inodes without a name that the kernel still refers to: a working directory that was removed, a
// file that is held by O_PATH. The controller has forgotten them (what is open it keeps); their
// attributes live on here until the kernel forgets them, too. Of extended attributes only those
// live here that were set after the removal.
//
// Threads: all methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/names.pb.h"
#include "volume/base/mutex.h"
#include "volume/base/types.h"

namespace reel::client {

class RemovedInodes {
 public:
  // One of its names was removed at `now`: the last one, for what this is asked about later.
  void Add(v1::Attr attr, const v1::Time& now);
  // Its size and times of data, as of now. Nothing, when it is not here.
  void Learn(const v1::Attr& attr);
  // From the kernel: it knows these no more.
  void Forget(std::uint64_t inode);

  bool Has(std::uint64_t inode) const { return Find(inode).has_value(); }
  std::optional<v1::Attr> Find(std::uint64_t inode) const;
  // nullopt when it is not here, or is to change in what only the controller can do.
  std::optional<v1::Attr> Set(const v1::SetAttr& set, const v1::Time& now);

  // As the system calls of these names; ESTALE when the inode is not here. The kernel has checked
  // who asks, and for what. SetXattr: ENOSPC when one inode's would take more than kMaxXattrBytes.
  static constexpr std::size_t kMaxXattrBytes = 64 * 1024;
  absl::StatusOr<std::string> GetXattr(std::uint64_t inode, std::string_view name) const;
  absl::Status SetXattr(const v1::SetXattr& set, const v1::Time& now);
  absl::StatusOr<std::string> ListXattr(std::uint64_t inode) const;
  absl::Status RemoveXattr(std::uint64_t inode, std::string_view name, const v1::Time& now);

 private:
  struct Removed {
    v1::Attr attr;
    std::map<std::string, std::string, std::less<>> xattrs;
  };

  mutable Mutex mutex_;
  absl::flat_hash_map<std::uint64_t, Removed> inodes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
