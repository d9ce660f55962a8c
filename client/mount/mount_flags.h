// The flags of mount(2) that options name, and how to set them on what is mounted.
//
// libfuse knows some of them only, and fusermount3(1) is asked for those. Threads: pure functions,
// but for those that ask the kernel.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel::client {

struct MountFlags {
  unsigned long set = 0;
  unsigned long clear = 0;

  // False: the word names no flag. The last word on a flag rules.
  bool Apply(std::string_view word);
  // What these flags make of others.
  unsigned long On(unsigned long flags) const { return (flags & ~clear) | set; }
};

// Of what is mounted there.
absl::StatusOr<unsigned long> FlagsOfMount(const std::string& mount_point);

// Sets those that libfuse could not. Without the right to, those that only show are left out.
absl::Status CompleteFlags(const std::string& mount_point, const MountFlags& flags);

// mount(2) with MS_REMOUNT, of the file system and not of this mount of it alone.
absl::Status RemountWith(const std::string& mount_point, unsigned long flags);

}  // namespace reel::client
