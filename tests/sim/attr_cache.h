// What the kernel of one host takes for valid of inodes' attributes: for a moment at least after
// each reply that allows it, until it is told otherwise.
//
// As in Linux: a reply to a request that began before the kernel was told is not taken for valid.
// Threads: fibers.
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
  explicit AttrCache(const Scheduler& scheduler) : scheduler_(scheduler) {}

  absl::StatusOr<client::Attributes> Get(client::Vfs& vfs, std::uint64_t inode,
                                         const client::Caller& caller) {
    const std::uint64_t version = entries_[inode].version;
    if (entries_[inode].until >= scheduler_.now()) {
      ++hits_;
      return entries_[inode].attr;
    }
    absl::StatusOr<client::Attributes> attr = vfs.GetAttr(inode, caller);
    const std::uint64_t valid_ns = attr.ok() ? vfs.ShowAttr(*attr, true) : 0;
    if (valid_ns == 0) return attr;
    Entry& entry = entries_[inode];
    if (entry.version == version) {
      entry.attr = *attr;
      entry.until = scheduler_.now() + std::max<Micros>(kMoment, valid_ns / 1000);
    }
    return attr;
  }
  // From the client; and what the kernel does by itself around a change that it asks for.
  void Forget(std::uint64_t inode) {
    Entry& entry = entries_[inode];
    ++entry.version;
    entry.until = 0;
  }
  // After what takes a name from some inode, of which the kernel knows which.
  void ForgetAll() {
    for (auto& [inode, entry] : entries_) Forget(inode);
  }
  std::uint64_t hits() const { return hits_; }

 private:
  static constexpr Micros kMoment = 8 * kMs;
  struct Entry {
    client::Attributes attr;
    Micros until = 0;
    std::uint64_t version = 0;
  };
  const Scheduler& scheduler_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t hits_ = 0;
};

}  // namespace reel::sim
