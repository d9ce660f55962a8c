// The calls of the table that lock: fcntl(2)'s byte ranges, flock(2), and what close(2) lets go.
#pragma once

struct fuse_lowlevel_ops;

namespace reel::client {

// Sets getlk, setlk, flock and flush. Userdata is a FuseFileSystem.
void AddLockCalls(fuse_lowlevel_ops& ops);

}  // namespace reel::client
