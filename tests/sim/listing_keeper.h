// Listings of directories that the kernel of one host keeps (FOPEN_CACHE_DIR).
//
// As in Linux: until an opendir(3) that does not say that what is kept holds; while the directory
// has the mtime that it had when the listing began; and while no change of a name in it that the
// kernel has asked for itself has come out well. (One open at a time fills it.) Threads: fibers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/vfs/dir_handle.h"
#include "client/vfs/vfs.h"
#include "proto/convert.h"
#include "tests/sim/attr_cache.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

class ListingKeeper {
 public:
  using Names = std::vector<std::pair<std::string, std::uint64_t>>;  // with their inodes

  ListingKeeper(Scheduler& scheduler, AttrCache& attributes)
      : scheduler_(scheduler), attributes_(attributes) {}

  // opendir(3), readdir(3) to the end, closedir(3).
  absl::StatusOr<Names> List(client::Vfs& vfs, std::uint64_t directory,
                             const client::Caller& caller) {
    const client::NameCache::Listing listing = vfs.OpenDirectory(directory);
    client::DirHandle handle(directory, false, listing);
    if (scheduler_.random().OneIn(4)) scheduler_.Sleep(scheduler_.random().Below(2 * kMs));
    if (!listing.kept) kept_.erase(directory);
    absl::StatusOr<Names> names =
        listing.number == 0 ? Ask(vfs, handle, caller) : ListKept(vfs, handle, caller);
    vfs.CloseDirectory(directory, listing);
    return names;
  }
  // The good end of a change that the kernel has asked for.
  void Changed(std::uint64_t directory) { ++versions_[directory]; }
  std::uint64_t hits() const { return hits_; }

 private:
  struct Kept {
    Names names;
    std::string mtime;
    std::uint64_t version = 0;
  };

  absl::StatusOr<Names> ListKept(client::Vfs& vfs, client::DirHandle& handle,
                                 const client::Caller& caller) {
    const absl::StatusOr<client::Attributes> attr = attributes_.Get(vfs, handle.inode(), caller);
    if (!attr.ok()) return attr.status();
    const std::string mtime = ToProto(attr->mtime).SerializeAsString();
    const std::uint64_t version = versions_[handle.inode()];
    const auto kept = kept_.find(handle.inode());
    if (kept != kept_.end() && kept->second.mtime == mtime && kept->second.version == version) {
      ++hits_;
      return kept->second.names;
    }
    absl::StatusOr<Names> names = Ask(vfs, handle, caller);
    if (scheduler_.random().OneIn(4)) scheduler_.Sleep(scheduler_.random().Below(2 * kMs));
    if (names.ok()) kept_[handle.inode()] = {*names, mtime, version};
    return names;
  }
  static absl::StatusOr<Names> Ask(client::Vfs& vfs, client::DirHandle& handle,
                                   const client::Caller& caller) {
    Names names;
    for (std::uint64_t cookie = 0;;) {
      const auto entry = vfs.NextEntry(handle, cookie, caller);
      if (!entry.ok()) return entry.status();
      if (*entry == nullptr) return names;
      cookie = (*entry)->cookie();
      names.emplace_back((*entry)->name(), (*entry)->inode());
    }
  }

  Scheduler& scheduler_;
  AttrCache& attributes_;
  std::map<std::uint64_t, Kept> kept_;
  std::map<std::uint64_t, std::uint64_t> versions_;
  std::uint64_t hits_ = 0;
};

}  // namespace reel::sim
