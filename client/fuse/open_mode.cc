#include "client/fuse/open_mode.h"

#include <fcntl.h>

namespace reel::client {

bool OpensDirect(CacheChoice choice, bool direct_io_mmap, const OpenRequest& request) {
  if (choice == CacheChoice::kDirect) return true;
  if ((request.flags & O_DIRECT) != 0) return true;
  // The page cache sends a write that begins within a page in pieces, between which another host
  // may append. And hardly anybody maps a file to append to it.
  if ((request.flags & O_APPEND) != 0) return true;
  if (choice == CacheChoice::kPageCache) return false;
  const bool reads = (request.flags & O_ACCMODE) == O_RDONLY;
  const std::uint64_t kept_bytes = request.played ? kKeptBytes : kStreamBytes;
  const bool again = request.size_bytes <= kept_bytes || request.read_in_pieces;
  if (reads && again && request.unchanged_seconds >= kSettledSeconds) return false;
  if (direct_io_mmap) return true;
  // A mapping needs read access.
  if ((request.flags & O_ACCMODE) == O_WRONLY) return true;
  return request.size_bytes > kStreamBytes;
}

}  // namespace reel::client
