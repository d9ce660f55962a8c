// What the kernel of one host takes for valid of inodes' attributes: for a moment at least after
// each reply that allows it, until it is told otherwise.
//
// As in Linux: a reply to a request that began before the kernel was told is not taken for valid;
// and it cannot be told of an inode of which it has taken in no reply. Threads: fibers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "client/vfs/vfs.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

class AttrCache {
 public:
  using Version = std::uint64_t;

  explicit AttrCache(const Scheduler& scheduler) : scheduler_(scheduler) {}

  absl::StatusOr<client::Attributes> Get(client::Vfs& vfs, std::uint64_t inode,
                                         const client::Caller& caller) {
    const Version version = now();
    if (entries_[inode].until >= scheduler_.now()) {
      ++hits_;
      return entries_[inode].attr;
    }
    absl::StatusOr<client::Attributes> attr = vfs.GetAttr(inode, caller);
    if (attr.ok()) Take(*attr, vfs.ShowAttr(*attr, true), version);
    return attr;
  }
  // How often it was told so far.
  Version now() const { return version_; }
  // A reply to a request that began then: valid for that long.
  void Take(const client::Attributes& attr, std::uint64_t valid_ns, Version began) {
    Entry& entry = entries_[attr.inode];
    if (valid_ns == 0 || std::max(entry.version, all_forgotten_) > began) return;
    entry.attr = attr;
    entry.until = scheduler_.now() + std::max<Micros>(kMoment, valid_ns / 1000);
  }
  // From the client. False: the kernel does not know the inode.
  bool Forget(std::uint64_t inode) {
    if (!entries_.contains(inode)) return false;
    Changed(inode);
    return true;
  }
  // What the kernel does by itself around a change that it asks for.
  void Changed(std::uint64_t inode) {
    Entry& entry = entries_[inode];
    entry.version = ++version_;
    entry.until = 0;
  }
  // After what takes a name from some inode, of which the kernel knows which.
  void AnyChanged() {
    for (auto& [inode, entry] : entries_) entry.until = 0;
    all_forgotten_ = ++version_;
  }
  std::uint64_t hits() const { return hits_; }

 private:
  static constexpr Micros kMoment = 8 * kMs;
  struct Entry {
    client::Attributes attr;
    Micros until = 0;
    Version version = 0;  // of the last forgetting
  };
  const Scheduler& scheduler_;
  std::map<std::uint64_t, Entry> entries_;
  Version version_ = 0;
  Version all_forgotten_ = 0;
  std::uint64_t hits_ = 0;
};

}  // namespace reel::sim
