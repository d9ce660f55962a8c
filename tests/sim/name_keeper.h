// Names that the kernel of one host keeps, as client/names/kernel_names.h has it.
//
// As in Linux 6.16: what was asked for before the kernel was told to forget is not kept. And a
// change that it asks for itself leaves nothing kept of its names. Threads: fibers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/vfs/vfs.h"
#include "proto/status.h"
#include "tests/sim/attr_cache.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

class NameKeeper {
 public:
  NameKeeper(Scheduler& scheduler, AttrCache& attributes)
      : scheduler_(scheduler), attributes_(attributes) {}

  // As stat(2) of a name.
  absl::StatusOr<client::Attributes> Lookup(client::Vfs& vfs, const client::NameIn& at,
                                            const client::Caller& caller) {
    const std::pair<std::uint64_t, std::string> key(at.parent, at.name);
    const auto kept = kept_.find(key);
    if (kept != kept_.end() && kept->second.epoch == epoch_ &&
        kept->second.until >= scheduler_.now()) {
      ++hits_;
      if (kept->second.inode == 0) return ErrnoStatus(ENOENT);
      absl::StatusOr<client::Attributes> attr = attributes_.Get(vfs, kept->second.inode, caller);
      if (ErrnoOf(attr.status()) != ESTALE) return attr;
    }
    const std::uint64_t epoch = epoch_;
    const std::uint64_t version = versions_[key];
    const AttrCache::Version asked = attributes_.now();
    absl::StatusOr<client::Attributes> attr = vfs.Lookup(at, caller);
    if (!attr.ok() && ErrnoOf(attr.status()) != ENOENT) return attr;
    const std::uint64_t inode = attr.ok() ? attr->inode : 0;
    const std::uint64_t valid_ns = attr.ok() ? vfs.ShowAttr(*attr, false) : 0;
    const Micros kept_for = static_cast<Micros>(vfs.ShowName(at, inode) / 1000);
    if (scheduler_.random().OneIn(4)) scheduler_.Sleep(scheduler_.random().Below(2 * kMs));
    if (kept_for > 0 && versions_[key] == version) {
      kept_[key] = {inode, epoch, scheduler_.now() + kept_for};
    }
    if (attr.ok()) attributes_.Take(*attr, valid_ns, asked);
    return attr;
  }
  // From the client.
  void Forget() { ++epoch_; }
  // The end of a change that the kernel has asked for.
  void Changed(const client::NameIn& at) {
    const std::pair<std::uint64_t, std::string> key(at.parent, at.name);
    ++versions_[key];
    kept_.erase(key);
  }
  std::uint64_t hits() const { return hits_; }

 private:
  struct Kept {
    std::uint64_t inode = 0;  // 0: absent
    std::uint64_t epoch = 0;
    Micros until = 0;
  };
  Scheduler& scheduler_;
  AttrCache& attributes_;
  std::uint64_t epoch_ = 0;
  std::map<std::pair<std::uint64_t, std::string>, Kept> kept_;
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> versions_;
  std::uint64_t hits_ = 0;
};

}  // namespace reel::sim
