// The call table: each FUSE call becomes one call of Vfs, and its outcome one reply.
//
// Not in the table, on purpose: access (the kernel checks permissions), copy_file_range (the kernel
// copies by reading and writing).
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "client/fuse/open_mode.h"
#include "client/locks/file_locks.h"
#include "client/vfs/vfs.h"

struct fuse_lowlevel_ops;

namespace reel::client {

// What the call table's functions get as userdata.
struct FuseFileSystem {
  Vfs& vfs;
  FileLocks& locks;
  CacheChoice cache = CacheChoice::kAuto;
  // Changes the mount's options; only asks whether it could where `apply` is false. The outcome is
  // for the caller's eyes.
  std::function<absl::Status(std::string_view options, bool apply)> remount = {};
};

const fuse_lowlevel_ops& FuseCallTable();

}  // namespace reel::client
