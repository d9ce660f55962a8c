// The call table: each FUSE call becomes one call of Vfs, and its outcome one reply.
//
// Not in the table, on purpose: access (the kernel checks permissions), copy_file_range (the kernel
// copies by reading and writing).
#pragma once

#include "client/file_locks.h"
#include "client/open_mode.h"
#include "client/vfs.h"

struct fuse_lowlevel_ops;

namespace reel::client {

// What the call table's functions get as userdata.
struct FuseFileSystem {
  Vfs& vfs;
  FileLocks& locks;
  CacheChoice cache = CacheChoice::kAuto;
};

const fuse_lowlevel_ops& FuseCallTable();

}  // namespace reel::client
