// The calls of the table that open files, and move their bytes.
#pragma once

struct fuse_lowlevel_ops;

namespace reel::client {

// Sets open, create, release, read, write, fsync, fallocate and lseek. Userdata is a
// FuseFileSystem.
void AddFileCalls(fuse_lowlevel_ops& ops);

}  // namespace reel::client
