// The kernel's side of a FUSE mount: how to end it while somebody still uses the mount.
//
// Linux numbers connections by the device of their file system and gives a number out again at
// once. So whoever wants to end one keeps its file system there first, also when it is detached.
// Source: Documentation/filesystems/fuse.rst, "Control filesystem". Threads: externally
// synchronised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "volume/fd_lun.h"

namespace reel::client {

// The number of the connection of what is mounted there; nullopt where nothing can be said. Asks
// nothing of the file system itself.
std::optional<std::uint32_t> ConnectionOf(const std::string& mount_point);

class FuseConnection {
 public:
  // `dev_fuse` is the connection's descriptor, `number` what ConnectionOf said when it began.
  // Nullopt where it has ended, or something else is mounted there by now.
  static std::optional<FuseConnection> Pin(const std::string& mount_point, int dev_fuse,
                                           std::uint32_t number);

  // Whoever waits for an answer in the kernel, invalidations too, gets an error instead, from now
  // on. False where the control file system is not mounted.
  bool Abort() const;

 private:
  FuseConnection(UniqueFd root, std::uint32_t number) : root_(std::move(root)), number_(number) {}

  UniqueFd root_;
  std::uint32_t number_;
};

}  // namespace reel::client
